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

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from representer.errors import BackendError, KindError, ShapeError
from representer.ops.sequence import check_length_range

Layout = Callable[[Any, dict[str, int]], Iterator[tuple[str, str | None]]]

_OPTIONS = (bool, int, float, str)  # torch passes these on as different objects
_INTEGERS = ("lengths", "edge_index")
_NOT_EMPTY = {"time", "centers", "rank", "filters", "slots"}


def is_forward_mode() -> bool:
    """Return True inside a level of forward-mode AD, whose tangents no operator propagates."""
    return forward_ad._current_level >= 0


def check_no_forward_mode(name: str) -> None:
    """Check that an operator cannot silently drop tangents.

    Raises:
        BackendError: Inside a level of forward-mode AD.
    """
    if is_forward_mode():
        function = name.removesuffix("_backward")
        raise BackendError(
            f"representer::{name} has no forward-mode derivative; inside jvp, jacfwd or dual_level "
            f'call representer.ops.{function}(..., backend="reference") or its layer.'
        )


class _Verified(threading.local):
    """The operands of the current operator call, already checked by a public function."""

    operands: tuple[Any, ...] | None = None


_verified = _Verified()


def call_verified(run: Any, operands: tuple[Any, ...], backend: str) -> Any:
    """Call an operator with operands whose shapes, kinds and options its caller has checked.

    If these very tensors reach the operator, it checks their memory alone, and its backend checks
    lengths and edges. Autocast and functorch make other tensors, which are checked in full.
    """
    if torch.compiler.is_compiling():
        return run(*operands, backend)
    before, _verified.operands = _verified.operands, operands
    try:
        return run(*operands, backend)
    finally:
        _verified.operands = before


def is_verified(operands: Sequence[Any]) -> bool:
    """Return True if a public function has checked these very operands."""
    known = _verified.operands
    return known is not None and all(
        one is other or (type(one) in _OPTIONS and one == other)
        for one, other in zip_longest(known, operands)
    )


def check_storage(names: Sequence[str], operands: Sequence[Any]) -> None:
    """Check that tensors are dense and on one device, which public functions do not check.

    Raises:
        KindError: If a tensor is not dense, or on a different device.
    """
    device = operands[0].device
    for name, operand in zip(names, operands, strict=True):
        if isinstance(operand, Tensor):
            if operand.layout != torch.strided:
                raise KindError(name, str(operand.layout), "a dense tensor")
            if operand.device != device:
                raise KindError(name, f"on {operand.device}", str(device))


def checked(names: Sequence[str], operands: Sequence[Any], layout: Layout) -> list[Any]:
    """Check the operands of a call, and return them in the layout that the kernels expect.

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
    given = dict(zip(names, operands, strict=True))
    sizes: dict[str, int] = {}
    main: Tensor | None = None
    for name, axes in layout(SimpleNamespace(**given), sizes):
        tensor: Tensor | None = given[name]
        words, is_optional, is_packed = _read(axes)
        if tensor is None or axes is None:
            if tensor is None and (axes is None or is_optional):
                continue
            wanted = "None in this call" if axes is None else "a tensor in this call"
            raise KindError(name, "None" if tensor is None else "a tensor", wanted)
        _bind(name, tensor, words, sizes)
        if name in _INTEGERS:
            _check_integers(name, tensor)
        elif main is None:
            _check_floating(name, tensor, tensor)
            main = tensor
        elif tensor.dtype != main.dtype:
            _check_floating(name, tensor, main)
        if tensor.layout != torch.strided:
            raise KindError(name, str(tensor.layout), "a dense tensor")
        if main is not None and tensor.device != main.device:
            raise KindError(name, f"on {tensor.device}", str(main.device))
        if name == "lengths":
            check_length_range(tensor, sizes["time"])
        if is_packed:
            given[name] = tensor.contiguous()
    return list(given.values())


@lru_cache
def _read(axes: str | None) -> tuple[tuple[str, ...], bool, bool]:
    """Return the axes of an operand, and whether it is optional or packed."""
    *words, last = (axes or "").split() or [""]
    if last and last not in ("?", "packed"):
        words.append(last)
    return tuple(words), last == "?", last == "packed"


def _bind(name: str, tensor: Tensor, axes: tuple[str, ...], sizes: dict[str, int]) -> None:
    """Check a shape against its axes, and record the sizes that it determines."""
    shape = tensor.shape
    fits = len(shape) == len(axes)
    if fits:
        for axis, size in zip(axes, shape, strict=True):
            if axis not in sizes:
                sizes[axis] = int(axis) if axis.isdigit() else size
                fits = fits and not (size == 0 and axis in _NOT_EMPTY)
            fits = fits and sizes[axis] == size
        if fits:
            return
        axes = tuple(str(sizes[axis]) if sizes[axis] else axis for axis in axes)
    empty = " and ".join(axis for axis in axes if axis in _NOT_EMPTY)
    hint = f"No {empty} is 0." if empty and 0 in shape else ""
    raise ShapeError(name, tuple(shape), f"({', '.join(axes)})", hint=hint)


def _check_integers(name: str, tensor: Tensor) -> None:
    is_integer = not (tensor.is_floating_point() or tensor.is_complex())
    if not is_integer or (name == "edge_index" and tensor.dtype != torch.int64):
        raise KindError(name, str(tensor.dtype), "torch.int64", hint=f"Use {name}.long().")


def _check_floating(name: str, tensor: Tensor, main: Tensor) -> None:
    if not tensor.is_floating_point():
        raise KindError(name, str(tensor.dtype), "a floating-point dtype", hint="Use .float().")
    if tensor.dtype != main.dtype:
        raise KindError(name, str(tensor.dtype), str(main.dtype))
