"""Checks of an operator's operands inside the operator, in both passes.

The public functions check what users pass. A call of ``torch.ops.representer`` bypasses them, and
between the two passes hooks on saved tensors may change a layout and other code may write to the
memory behind ``edge_index`` or ``lengths``. The kernels read bare memory, so nothing reaches them
unchecked.

Each operator has one layout per pass: a generator of operand names and axes, such as
``("weight", "gates units units")``. A name stands for one size wherever it occurs. A trailing ``?``
marks an optional operand, a trailing ``packed`` one that the kernels read as contiguous memory;
None in place of axes forbids the operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from representer.errors import BackendError, KindError, ShapeError
from representer.ops.sequence import check_length_range

Layout = Callable[[Any, dict[str, int]], Iterator[tuple[str, str | None]]]

_NOT_EMPTY = {"time", "centers", "rank", "filters", "slots"}


def is_forward_mode() -> bool:
    """Return True inside a level of forward-mode AD, whose tangents no operator propagates."""
    return forward_ad._current_level >= 0


def check_no_forward_mode(name: str) -> None:
    """Check that no tangents can get lost in an operator.

    Raises:
        BackendError: Inside a level of forward-mode AD.
    """
    if is_forward_mode():
        function = name.removesuffix("_backward")
        raise BackendError(
            f"representer::{name} has no forward-mode derivative; inside jvp, jacfwd or dual_level "
            f'call representer.ops.{function}(..., backend="reference") or its layer.'
        )


def checked(names: Sequence[str], operands: Sequence[Any], layout: Layout) -> list[Any]:
    """Return the operands of a call as its kernels may read them.

    Args:
        names: Their names, in the operator's order.
        operands: The operands.
        layout: The operator's layout.

    Raises:
        ShapeError: If a shape does not fit.
        KindError: If a dtype, a device or a memory layout does not, an operand is missing, or one
            is given that the call does not take.
        ArgumentError: If a length, an index or an option is out of range.
    """
    p, sizes = SimpleNamespace(**dict(zip(names, operands, strict=True))), dict[str, int]()
    main: Tensor | None = None
    for name, axes in layout(p, sizes):
        tensor, words = getattr(p, name), (axes or "").split()
        is_optional, is_packed = words[-1:] == ["?"], words[-1:] == ["packed"]
        if tensor is None or axes is None:
            if tensor is None and (axes is None or is_optional):
                continue
            wanted = "None in this call" if axes is None else "a tensor in this call"
            raise KindError(name, "None" if tensor is None else "a tensor", wanted)
        _bind(name, tensor, words[:-1] if is_optional or is_packed else words, sizes)
        if name in ("lengths", "edge_index"):
            _check_integers(name, tensor)
        else:
            _check_floating(name, tensor, tensor if main is None else main)
            main = tensor if main is None else main
        if tensor.layout != torch.strided:
            raise KindError(name, str(tensor.layout), "a dense tensor")
        if main is not None and tensor.device != main.device:
            raise KindError(name, f"on {tensor.device}", str(main.device))
        if name == "lengths":
            check_length_range(tensor, sizes["time"])
        if is_packed:
            setattr(p, name, tensor.contiguous())
    return [getattr(p, name) for name in names]


def _bind(name: str, tensor: Tensor, axes: list[str], sizes: dict[str, int]) -> None:
    """Check a shape against its axes, and note the sizes that it determines."""
    shape = tuple(tensor.shape)
    fits = len(shape) == len(axes)
    for axis, size in zip(axes, shape, strict=False) if fits else ():
        wanted = int(axis) if axis.isdigit() else sizes.setdefault(axis, size)
        fits = fits and size == wanted and not (axis in _NOT_EMPTY and not size)
    if not fits:
        words = [str(sizes.get(axis, axis)) if len(shape) == len(axes) else axis for axis in axes]
        hint = " and ".join(axis for axis in axes if axis in _NOT_EMPTY and not sizes.get(axis, 1))
        raise ShapeError(name, shape, f"({', '.join(words)})", hint=hint and f"No {hint} is 0.")


def _check_integers(name: str, tensor: Tensor) -> None:
    is_integer = not (tensor.is_floating_point() or tensor.is_complex())
    if not is_integer or (name == "edge_index" and tensor.dtype != torch.int64):
        raise KindError(name, str(tensor.dtype), "torch.int64", hint=f"Use {name}.long().")


def _check_floating(name: str, tensor: Tensor, main: Tensor) -> None:
    if not tensor.is_floating_point():
        raise KindError(name, str(tensor.dtype), "a floating-point dtype", hint="Use .float().")
    if tensor.dtype != main.dtype:
        raise KindError(name, str(tensor.dtype), str(main.dtype))
