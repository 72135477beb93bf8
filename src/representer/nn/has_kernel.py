"""The base class of layers whose units evaluate an exact kernel."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from torch import nn

from representer.errors import MissingExtraError, NoKernelError

K = TypeVar("K")


class HasKernel(nn.Module, Generic[K]):
    """A layer with the property ``kernel``, as defined in `representer.duality`.

    It is a module, so that FSDP2 can replace the class of a layer, which needs one memory layout.
    It comes first among the base classes: the ``__getattr__`` of ``nn.Module`` would replace the
    message of an AttributeError that the property raises.
    """

    @property
    def kernel(self) -> K:
        """The exact kernel that each unit evaluates against its reference.

        Raises:
            NoKernelError: If there is none, or the extra ``kernels`` is not installed; the message
                states the reason. It is an AttributeError, so that ``hasattr`` is False.
        """
        try:
            from representer import duality
        except MissingExtraError as error:
            raise NoKernelError("kernel", "unavailable", "the extra", hint=f"{error}.") from error
        layer: Any = self
        kernel: Any = duality.kernel_of(layer)
        return kernel

    def __getattr__(self, name: str) -> Any:
        if name == "kernel":  # the property raised an AttributeError, whose message is lost here
            return HasKernel.kernel.fget(self)  # type: ignore[misc]
        return super().__getattr__(name)  # type: ignore[misc]
