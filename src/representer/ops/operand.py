"""One operand of an op: its declaration, and the check of a tensor against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from representer.errors import KindError, ShapeError
from representer.ops.checks import check_floating, dtypes_meet, wrong_device
from representer.ops.sequence import check_length_range

Sizes = dict[Any, int]  # by the names of axes; a number in place of a name has itself as its size
Axes = tuple[str | int, ...]

# axes that must not be empty, and the name of an entry
_ENTRIES = {"time": "step", "centers": "center", "rank": "product", "filters": "filter",
            "slots": "slot", "inputs": "channel"}  # fmt: skip
EMPTY: tuple[Axes, ...] = ((0,),)


@dataclass(frozen=True)
class Operand:
    """A tensor that an operator takes or returns.

    Attributes:
        axes: Its axes, such as ``"time batch units"``: a name stands for one size wherever it
            occurs in a call, a number for itself, and ``|`` separates alternatives with different
            numbers of axes. The axis ``batch`` is the one that ``torch.vmap`` extends.
        instead: Other axes, and whether a call has them, given its operands.
        needed: Given the operands, whether a call must have this one (True), must not (False), or
            may (None, as if left out). For a result: whether it is computed; if not, it is empty.
        differentiable: Whether it has a gradient.
        saved: Whether the gradient operator reads it, or a function of the operands for that.
        restored: Returns the value of an operand that is not saved, given the others and the saved
            results by name; second derivatives need it.
        on_request: Whether its gradient costs extra and is computed only if it is needed.
        check: Checks the values of a tensor of integers, given its name and the sizes.
    """

    axes: str
    instead: tuple[str, Callable[[Any], bool]] | None = None
    needed: Callable[[Any], bool | None] | None = None
    differentiable: bool = True
    saved: Callable[[Any], bool] | bool = True
    restored: Callable[[Any, Mapping[str, Tensor]], Tensor] | None = None
    on_request: bool = False
    check: Callable[[Tensor, str, Sizes], Any] | None = None


LENGTHS = Operand(
    "batch",
    differentiable=False,
    check=lambda lengths, name, sizes: check_length_range(lengths, sizes["time"]),
)


class Row(NamedTuple):
    """An operand with its name, prepared for checks."""

    name: str
    operand: Operand
    is_optional: bool
    axes: tuple[Axes, ...]
    other_axes: tuple[Axes, ...]

    def axes_in(self, p: Any) -> tuple[Axes, ...]:
        """Return the axes that it may have in a call."""
        instead = self.operand.instead
        return self.other_axes if instead is not None and instead[1](p) else self.axes

    def is_saved(self, p: Any) -> bool:
        """Return True if the gradient operator reads it."""
        saved = self.operand.saved
        return saved if isinstance(saved, bool) else bool(saved(p))

    def is_computed(self, p: Any) -> bool:
        """Return True if a call computes this result."""
        return self.operand.needed is None or bool(self.operand.needed(p))

    def batch_axis(self) -> int | None:
        """Return the position of the batch, if there is one."""
        return self.axes[0].index("batch") if "batch" in self.axes[0] else None

    def shape(self, p: Any, sizes: Sizes) -> tuple[int, ...]:
        """Return its shape in a call, from the sizes."""
        return tuple([sizes[axis] for axis in self.axes_in(p)[0]])


def check_operand(
    row: Row,
    tensor: Tensor | None,
    p: Any,
    sizes: Sizes,
    like: tuple[Tensor, torch.dtype, torch.device],
    is_strict: bool,
    axes: tuple[Axes, ...] | None = None,
) -> None:
    """Check one operand, and record the sizes that it determines."""
    name, operand, is_optional, fixed, _ = row
    main, dtype, device = like
    needed = operand.needed(p) if is_optional and operand.needed is not None else not is_optional
    if tensor is None:
        if needed:  # torch passes None for any tensor of a schema
            wanted = f"a tensor {_text(axes or row.axes_in(p), sizes)} in this call"
            raise KindError(name, "None", wanted)
        return
    if is_optional and operand.needed is not None and needed is False:
        raise KindError(name, f"a tensor {tuple(tensor.shape)}", "None in this call")
    alternatives = axes or (fixed if operand.instead is None else row.axes_in(p))
    known = len(sizes)
    if not _binds(tensor.shape, alternatives, sizes):
        raise _misfit(name, tensor, alternatives, dict(list(sizes.items())[:known]))
    if operand.check is not None:
        _check_integers(name, tensor)
    elif tensor.dtype != dtype:
        check_floating(name, tensor)
        if is_strict or not dtypes_meet(tensor, main):
            raise KindError(name, str(tensor.dtype), str(dtype), hint=f"Use {name}.to({dtype}).")
    if tensor.device != device:
        raise wrong_device(name, tensor, device)
    if tensor.layout != torch.strided:
        raise KindError(name, str(tensor.layout), "a dense tensor", hint="Use .to_dense().")


def _binds(shape: tuple[int, ...], alternatives: tuple[Axes, ...], sizes: Sizes) -> bool:
    """Return True if a shape fits one of several axes, and record the sizes it determines."""
    dim = len(shape)
    for axes in alternatives:
        if len(axes) == dim:
            for axis, size in zip(axes, shape, strict=False):
                if axis not in sizes:
                    sizes[axis] = size
                    if axis in _ENTRIES and size == 0:
                        return False
                elif sizes[axis] != size:
                    return False
            return True
    return False


def _misfit(name: str, tensor: Tensor, alternatives: tuple[Axes, ...], sizes: Sizes) -> ShapeError:
    empty = [_ENTRIES[a] for axes in alternatives for a in axes if a in _ENTRIES]
    wanted = _text(alternatives, sizes)
    if empty and 0 in tensor.shape:
        wanted = f"{wanted} with at least one {' and '.join(dict.fromkeys(empty))}"
    return ShapeError(name, tuple(tensor.shape), wanted)


def _text(alternatives: tuple[Axes, ...], sizes: Sizes) -> str:
    """Return axes for a message, such as ``(), (3,) or (time, 2, 3)``."""
    texts = []
    for axes in alternatives:
        words = [str((isinstance(a, str) and sizes.get(a)) or a) for a in axes]
        texts.append(f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})")
    return " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _check_integers(name: str, tensor: Tensor) -> None:
    is_integer = not (tensor.is_floating_point() or tensor.is_complex())
    if not is_integer or (name == "edge_index" and tensor.dtype != torch.int64):
        wanted = "torch.int64" if name == "edge_index" else "integers"
        raise KindError(name, str(tensor.dtype), wanted, hint=f"Use {name}.long().")


def parse_axes(axes: str) -> tuple[Axes, ...]:
    """Return the alternatives that a declaration of axes lists."""
    return tuple(
        tuple(int(word) if word.isdigit() else word for word in part.split())
        for part in axes.split("|")
    )
