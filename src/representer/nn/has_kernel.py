"""The base class of layers whose units evaluate an exact kernel."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from torch import Tensor, nn

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
