"""Base of layers: the kernel that their units evaluate, and checks of their options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from numbers import Integral
from types import FunctionType
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx import Proxy

from representer.checks import is_number
from representer.errors import ArgumentError, KindError, MissingExtraError, NoKernelError

# Layers whose units evaluate an exact kernel.

K = TypeVar("K")


class HasKernel(nn.Module, Generic[K]):
    """A layer with the property ``kernel``, as defined in `representer.duality`.

    It is a module, so that FSDP2 can replace the class of a layer, which needs one memory layout.
    It comes first among the base classes: the ``__getattr__`` of ``nn.Module`` would replace the
    message of an AttributeError that the property raises.
    """

    @property
    def kernel(self) -> K:
        """The kernel of the state before an activation, see ``duality.kernel_of``.

        It is the exact kernel that each unit evaluates against its reference, or, with gates, the
        ``kernels.LearnedKernel`` of the layer.

        Raises:
            NoKernelError: If there is none, or the extra ``kernels`` is not installed; the message
                states the reason. It is an AttributeError, so that ``hasattr`` is False.
        """
        layer: Any = self
        kernel: Any = _duality().kernel_of(layer)
        return kernel

    def evaluate(self, X: Any, lengths: Any = None) -> Tensor:
        """Return the state of each unit after every object ``(B, H)``, before any activation.

        It is the kernel of the object and the unit's reference: ``layer.kernel([X[b]],
        layer.reference_objects())[0, i]``, where the layer has a kernel.

        Args:
            X: Objects as the kernel takes them, or padded sequences ``(B, T, d)``.
            lengths: True lengths of padded sequences ``(B,)``.
        """
        return _duality().evaluate(self, X, lengths)

    def reference_objects(self) -> list[Any]:
        """Return the references as ``layer.kernel`` takes them, those of the last layer."""
        return _duality().reference_objects(self)

    def __getattr__(self, name: str) -> Any:
        if name == "kernel":  # the property raised an AttributeError, whose message is lost here
            return HasKernel.kernel.fget(self)  # type: ignore[misc]
        return super().__getattr__(name)  # type: ignore[misc]


def _duality() -> Any:
    try:
        from representer import duality
    except MissingExtraError as error:
        raise NoKernelError("kernel", "unavailable", "the extra", hint=f"{error}.") from error
    return duality


# Checks of options, and those that a repr shows.

_Forward = TypeVar("_Forward", bound=Callable[..., Any])


def check_flag(name: str, value: Any) -> bool:
    """Return an option that is True or False; 1 and 0 are taken, too, as torch does."""
    if not isinstance(value, (np.bool_, Integral)) or value not in (0, 1):
        raise ArgumentError(name, value, "True or False")
    return bool(value)


def check_probability(name: str, value: float) -> float:
    """Return a probability if it is valid."""
    if not is_number(value) or not 0 <= value <= 1:
        raise ArgumentError(name, value, "a number from 0 to 1")
    return float(value)


def check_dense(x: object, expected: str = "a tensor", name: str = "input") -> None:
    """Check that an input is a dense tensor."""
    if not isinstance(x, Tensor):
        raise KindError(name, type(x).__name__, expected)
    if x.is_nested:
        hint = "Use .to_padded_tensor(0.0)."
        raise KindError(name, "a nested tensor", "a dense tensor", hint=hint)
    if x.layout != torch.strided:
        raise KindError(name, str(x.layout), "a dense tensor", hint="Use .to_dense().")


def leaf_of_fx(forward: _Forward) -> _Forward:
    """Let ``torch.fx.symbolic_trace`` record a layer as one call, as it does with torch's."""

    @functools.wraps(forward)
    def run(self: Any, *arguments: Any, **options: Any) -> Any:
        first: Any = arguments
        if isinstance(first, Proxy):  # torch.fx passes it so to a layer with keyword-only arguments
            arguments, options = (first,), {}
        proxies = [x for x in (*arguments, *options.values()) if isinstance(x, Proxy)]
        if not proxies:
            return forward(self, *arguments, **options)
        tracer: Any = proxies[0].tracer
        path = tracer.path_of_module(self)
        if not path:
            hint = "Trace a model that contains it, or use torch.export.export."
            raise KindError("the traced module", type(self).__name__, "its owner", hint=hint)
        return tracer.create_proxy("call_module", path, arguments, options)

    # Dynamo compiles a code object at most eight times, for all layers whose forward is this one
    function = cast(FunctionType, run)
    function.__code__ = function.__code__.replace(co_name=forward.__qualname__)
    return cast(_Forward, run)


def shown_arguments(layer: Any, *sizes: str, apart: dict[str, Any]) -> str:
    """Return the sizes of a layer and its arguments that differ from their defaults.

    ``sizes`` names those that have no default; ``apart`` has values of arguments without an
    attribute.
    """
    shown = [", ".join(str(getattr(layer, name)) for name in sizes)]
    for name, parameter in inspect.signature(type(layer).__init__).parameters.items():
        if name not in ("self", *sizes, "device", "dtype"):
            value = apart[name] if name in apart else getattr(layer, name)
            if value != parameter.default:
                shown.append(f"{name}={value!r}")
    return ", ".join(shown)
