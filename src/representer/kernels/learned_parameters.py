"""Numbers of a kernel that are learned by gradients, such as its decay."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from representer.errors import ArgumentError, KindError
from representer.kernels.kernel import Kernel, check_kernel

Bounds = Mapping[str, tuple[float, float]]  # of each learned number, by the name of `get_params`


def check_bounds(kernel: Kernel, learn: Bounds) -> None:
    """Check the names and the bounds of learned numbers.

    Raises:
        KindError: ``kernel`` is not a kernel, or a parameter is not a number.
        ArgumentError: A name is unknown, or a value is not inside its bounds.
    """
    check_kernel(kernel)
    known = kernel.get_params()
    for name, (low, high) in learn.items():
        numbers = [key for key, value in known.items() if is_number(value)]
        if name not in known:
            raise ArgumentError("learn", name, f"one of {', '.join(numbers) or 'no number'}")
        if not is_number(known[name]):
            raise KindError(f"the parameter {name}", repr(known[name]), "a number")
        if not low < known[name] < high:
            raise ArgumentError(name, known[name], f"a number between {low:g} and {high:g}")


def is_number(value: Any) -> bool:
    """Return True for a real number that can be learned."""
    return isinstance(value, (float, np.floating)) or type(value) is int


def with_values(kernel: Kernel, values: Mapping[str, Tensor | float]) -> Kernel:
    """Return the kernel with other numbers; if one requires a gradient, it returns tensors."""
    made: Any = copy.deepcopy(kernel)  # a clone would not be fitted
    return made.set_params(**values)
