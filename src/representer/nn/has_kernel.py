"""The base class of layers whose units evaluate an exact kernel."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

K = TypeVar("K")


class HasKernel(Generic[K]):
    """A layer with the property ``kernel``, as defined in `representer.duality`."""

    @property
    def kernel(self) -> K:
        """The exact kernel that each unit evaluates against its reference.

        Raises:
            KindError: If there is none; the message states the reason.
            MissingExtraError: If the extra ``kernels`` is not installed.
        """
        from representer import duality

        layer: Any = self
        kernel: Any = duality.kernel_of(layer)
        return kernel
