"""A kernel as plain values: what a file holds of an expression of kernels, without pickle."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from representer import kernels
from representer.errors import ArgumentError
from representer.kernels.kernel import Kernel

KIND = "kernel class"  # the key of a kernel's name; no argument of a kernel has a space in it


def to_plain(kernel: Kernel) -> dict[str, Any]:
    """Return the class and the arguments of a kernel, and of the kernels in it."""
    name = type(kernel).__name__
    if getattr(kernels, name, None) is not type(kernel):
        raise ArgumentError("kernel", name, "a kernel of representer.kernels, to be saved")
    values = kernel.get_params(deep=False)
    return {KIND: name} | {key: _plain(f"{name}.{key}", value) for key, value in values.items()}


def from_plain(values: Any) -> Any:
    """Return the kernel that `to_plain` described, or another value as it is."""
    if isinstance(values, list):
        return tuple(map(from_plain, values))
    if not isinstance(values, dict):
        return values
    values = dict(values)
    cls = getattr(kernels, str(values.pop(KIND, "")), None)
    if not (isinstance(cls, type) and issubclass(cls, Kernel)):
        raise ValueError("it names no kernel of representer.kernels")
    try:
        return cls(**{name: from_plain(value) for name, value in values.items()})
    except TypeError as error:
        raise ValueError(f"{error}") from None


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Kernel):
        return to_plain(value)
    if isinstance(value, (list, tuple)):
        return [_plain(name, item) for item in value]
    if isinstance(value, Tensor) and value.dim() == 0:
        return value.item()
    if value is not None and not isinstance(value, (str, int, float)):
        hint = "A kernel of other objects can be used, but not saved."
        raise ArgumentError(name, value, "a number, a text or a kernel, to be saved", hint=hint)
    return value
