"""Replacement of the activations of a model by learned ones."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from representer.nn.activation.functions import CalledFunction, call_modules, called_name, trace
from representer.nn.activation.kernel_activation import KernelActivation
from representer.ops.common import evaluating

_Module = TypeVar("_Module", bound=nn.Module)

ELEMENTWISE: tuple[type[nn.Module], ...] = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh,
    nn.Sigmoid, nn.LogSigmoid, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardswish,
    nn.Hardsigmoid, nn.Tanhshrink,
)  # fmt: skip
"""Modules of torch that apply one continuous function elementwise."""
_LIBRARIES = ("torch", "representer", "torch_geometric", "builtins")


def replace_activations(
    module: _Module,
    num_centers: int = 20,
    example_input: Any = None,
    *,
    green: str = "abs",
    limits: tuple[float, float] = (-4.0, 4.0),
    **options: Any,
) -> _Module:
    """Replace a model's activations by learned ones, initialized as the functions they replace.

    Modules, such as ``nn.ReLU``, and functions that a forward pass calls, such as ``F.relu`` and
    ``x.relu()``, where ``torch.fx`` can trace the pass and every pass is the traced one.

    Args:
        module: The model, which is modified in place.
        num_centers: d of each activation.
        example_input: A tensor or tuple of arguments, with which the model is called once to
            determine the number of neurons of each activation. Each neuron then has its own
            function, or each channel after a convolution. By default, all neurons of an activation
            share one function.
        green: g.
        limits: The range on which the functions are fitted; beyond it they are extrapolated by g,
            linearly for ``"abs"``.
        **options: Other arguments of `KernelActivation`.

    Returns:
        The module; with ``"abs"`` every activation has a linear term.

    Warns:
        UserWarning: If a module calls an activation as a function in a forward pass that cannot be
            traced: it stays.

    References:
        Marra et al., 2018, (1): a separate function for each neuron of any network.
    """
    if functions := _make_modules(module):
        warnings.warn(
            f"{', '.join(functions)} is not changed, since it is called as a function of a forward "
            "pass that cannot be traced. Use modules, such as nn.ReLU(), for activations to "
            "replace.",
            stacklevel=2,
        )
    replaceable = [
        (owner, name, child)
        for owner in module.modules()
        for name, child in owner._modules.items()  # every occurrence of shared modules
        if isinstance(child, (*ELEMENTWISE, CalledFunction))
    ]
    layouts = _layouts(module, {child for _, _, child in replaceable}, example_input)
    options.setdefault("linear_term", green == "abs")
    like = next(module.parameters(), torch.empty(0))
    made: dict[nn.Module, KernelActivation] = {}
    for owner, name, child in replaceable:
        if child not in made:
            seen = layouts.get(child, set())
            features, dim = seen.pop() if len(seen) == 1 else (1, -1)
            plain = _out_of_place(child)
            made[child] = KernelActivation(
                features, num_centers, green, limits, plain, dim=dim,
                device=like.device, dtype=like.dtype, **options,
            ).train(child.training)  # fmt: skip
        setattr(owner, name, made[child])
        if isinstance(owner, nn.TransformerEncoderLayer):
            owner.activation_relu_or_gelu = 0  # else torch computes it, in inference
    for owner in module.modules():
        if isinstance(owner, nn.TransformerEncoder):
            owner.use_nested_tensor &= not made  # only torch's own activations take them
    return module


def activation_penalty(module: nn.Module, norm: Literal["l1", "smoothness"] = "l1") -> Tensor:
    """Return the penalty of all learned activations; see `KernelActivation.penalty`."""
    penalties = [m.penalty(norm) for m in module.modules() if isinstance(m, KernelActivation)]
    return torch.stack(penalties).sum() if penalties else torch.zeros(())


def activation_groups(
    module: nn.Module, lr: float | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Return parameter groups for an optimizer, with the learned activations in a separate group.

    Args:
        module: The model.
        lr: Learning rate of centers, coefficients and lines; that of the optimizer by default.
        **options: Other options of their group, such as ``weight_decay=0.0``.
    """
    parameters = [
        parameter
        for activation in module.modules()
        if isinstance(activation, KernelActivation)
        for parameter in _shape_parameters(activation)
    ]
    taken = {id(parameter) for parameter in parameters}
    rest = [parameter for parameter in module.parameters() if id(parameter) not in taken]
    group: dict[str, Any] = {"params": parameters, **options}
    return [{"params": rest}, group if lr is None else {**group, "lr": lr}]


def _shape_parameters(activation: KernelActivation) -> Iterable[nn.Parameter]:
    yield activation.centers
    yield activation.coefficients
    if activation.line is not None:
        yield activation.line


def _make_modules(module: nn.Module) -> list[str]:
    """Make activations that are called as functions modules, and return the names of others."""
    names = {layer.__name__.lower() for layer in ELEMENTWISE}
    calls: dict[str, None] = {}
    for owner in [*module.modules()]:
        for name, value in [*vars(owner).items()]:
            called = getattr(value, "__name__", "")
            if called.replace("_", "") in names and not called.endswith("_"):
                delattr(owner, name)
                setattr(owner, name, CalledFunction(called, "call_function", value))
        kinds = [k for k in type(owner).__mro__ if k.__module__.split(".")[0] not in _LIBRARIES]
        made = call_modules(owner, names) if kinds else []
        members = [x for layer in kinds for x in vars(layer).values()]
        used = [name for x in members if (code := getattr(x, "__code__", None))
                for name in code.co_names if name not in owner._modules]  # fmt: skip
        if kinds:  # also by another name, or in a function that forward calls
            with contextlib.suppress(Exception):  # of a forward that depends on values
                used += map(called_name, trace(owner).nodes)
        for name in used:
            if name.replace("_", "") in names and name not in made:
                calls[f"{type(owner).__name__}: {name}"] = None
    return list(calls)


def _layouts(
    module: nn.Module, children: set[nn.Module], example_input: Any
) -> dict[nn.Module, set[tuple[int, int]]]:
    """Return the numbers of features of the inputs of each activation, and their dimensions."""
    layouts: dict[nn.Module, set[tuple[int, int]]] = {}
    if example_input is None:
        return layouts
    last: list[tuple[int, int]] = []  # channels of the latest output that has any, and their axis

    def note(child: nn.Module, arguments: tuple[Any, ...]) -> None:
        if shape := arguments[0].shape:
            layouts.setdefault(child, set()).add(_layout(shape, last[-1] if last else None))

    hooks = [child.register_forward_pre_hook(note) for child in children]
    for submodule in module.modules():
        if channels := _channels(submodule):
            hook = partial(lambda channels, *_: last.append(channels), channels)
            hooks.append(submodule.register_forward_hook(hook))
    try:
        with torch.no_grad(), evaluating(module):
            arguments = example_input if isinstance(example_input, tuple) else (example_input,)
            module(*arguments)
    finally:
        for hook in hooks:
            hook.remove()
    return layouts


def _channels(module: nn.Module) -> tuple[int, int] | None:
    """Return the number of channels of a module's output and their axis, if torch defines them."""
    match module:
        case _ConvNd():
            return module.out_channels, -1 - len(module.kernel_size)
        case _NormBase():
            return module.num_features, 1
        case nn.GroupNorm():
            return module.num_channels, 1
        case nn.Linear():
            return module.out_features, -1
        case nn.LayerNorm():
            return module.normalized_shape[-1], -1
    return None


def _layout(shape: torch.Size, channels: tuple[int, int] | None) -> tuple[int, int]:
    """Return the number of features of an input and their dimension; 1 if it is unknown."""
    if channels is None:
        return (shape[1], 1) if len(shape) > 3 else (shape[-1], -1)
    count, expected = channels
    for axis in (expected, -1, 1):  # it may have been transposed since
        if -len(shape) <= axis < len(shape) and shape[axis] == count:
            return count, axis if axis == -1 else axis % len(shape)
    return (shape[-1], -1) if len(shape) == 2 else (1, -1)


def _out_of_place(child: nn.Module) -> nn.Module:
    """Return the activation without ``inplace``, for the fit."""
    if getattr(child, "inplace", False):
        child.inplace = False  # type: ignore[assignment]
    return child
