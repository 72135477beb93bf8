"""The operands of rkm_scan and of its gradient, in the order of their schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from representer.errors import ArgumentError
from representer.functional.cell import Cell

NOTHING, ALL, CELLS = 0, 1, 2  # what forward keeps for the gradient; CELLS recomputes the gates


class Forward(NamedTuple):
    """Operands of the forward operator; shapes as in ``rkm_scan``."""

    z: Tensor
    input_weight: Tensor | None
    bias: Tensor | None
    weight: Tensor | None
    h0: Tensor
    c0: Tensor
    static: Tensor | None
    norm: Tensor | None
    hold: Tensor | None
    lengths: Tensor | None
    code: str
    reverse: bool
    keep: int

    SCHEMA = (
        "(Tensor z, Tensor? input_weight, Tensor? bias, Tensor? weight, Tensor h0, Tensor c0,"
        " Tensor? static, Tensor? norm, Tensor? hold, Tensor? lengths, str cell, bool reverse,"
        " int keep, str backend) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
    )

    @property
    def cell(self) -> Cell:
        """The cell."""
        return Cell.parse(self.code)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """T, B, G and H."""
        time, batch = self.z.shape[:2]
        return time, batch, len(self.cell.gates), self.h0.shape[1]

    @property
    def kept_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Of gates, carried cells and fresh cells, as far as they are kept."""
        time, batch, gates, units = self.sizes
        between = self.norm is not None or self.hold is not None
        return (
            (time, batch, gates, units) if self.keep == ALL else (0,),
            (time, batch, units) if self.keep else (0,),
            (time, batch, units) if self.keep and between else (0,),
        )


class Backward(NamedTuple):
    """Operands of the gradient operator."""

    grad_output: Tensor
    grad_h: Tensor
    grad_c: Tensor
    output: Tensor
    gates: Tensor
    cells: Tensor
    fresh: Tensor
    z: Tensor
    input_weight: Tensor | None
    bias: Tensor | None
    weight: Tensor | None
    h0: Tensor
    c0: Tensor
    static: Tensor | None
    norm: Tensor | None
    hold: Tensor | None
    lengths: Tensor | None
    code: str
    reverse: bool
    needs_x: bool
    needs_static: bool

    SCHEMA = (
        "(Tensor grad_output, Tensor grad_h, Tensor grad_c, Tensor output, Tensor gates,"
        " Tensor cells, Tensor fresh, Tensor z, Tensor? input_weight, Tensor? bias,"
        " Tensor? weight, Tensor h0, Tensor c0, Tensor? static, Tensor? norm, Tensor? hold,"
        " Tensor? lengths, str cell, bool reverse, bool needs_x, bool needs_static, str backend)"
        " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
    )

    @property
    def cell(self) -> Cell:
        """The cell."""
        return Cell.parse(self.code)


class Gradients(NamedTuple):
    """Results of the gradient operator; empty for what is absent or not needed."""

    z: Tensor
    input_weight: Tensor
    bias: Tensor
    weight: Tensor
    h0: Tensor
    c0: Tensor
    static: Tensor
    norm: Tensor


def layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    """Yield the layout of the forward operator, see ``ops.operands``."""
    if p.keep not in (NOTHING, ALL, CELLS):
        raise ArgumentError("keep", p.keep, f"one of {NOTHING}, {ALL} and {CELLS}")
    yield "h0", "batch units"
    yield from _shared(p, sizes)
    yield "z", "time batch features" if p.input_weight is not None else "time batch gates units"
    yield "hold", "2 time batch units ?"
    yield "lengths", "batch ?"


def backward_layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    """Yield the layout of the gradient operator."""
    yield "output", "time batch units packed"
    yield from _shared(p, sizes)
    is_recomputed = p.gates.dim() == 1
    yield "gates", "0" if is_recomputed else "time batch gates units packed"
    yield "cells", "time batch units packed"
    has_fresh = p.norm is not None or p.hold is not None
    yield "fresh", "time batch units packed" if has_fresh else "0"
    is_product = is_recomputed and p.input_weight is None
    yield "z", "time batch gates units" if is_product else _input_axes(p)
    yield "grad_output", "time batch units"
    yield "grad_h", "batch units"
    yield "grad_c", "batch units"
    yield "h0", "batch units"
    yield "hold", "2 time batch units ?"
    yield "lengths", "batch ?"


def _shared(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    cell = Cell.parse(p.cell)
    sizes["gates"], sizes["seen"] = len(cell.gates), len(cell.recurrent_gates)
    is_static = "static" in (cell.input_gate, cell.forget_gate)
    yield "c0", "batch units"
    yield "input_weight", "gates units features ?"
    yield "bias", None if p.input_weight is None else "gates units ?"
    yield "weight", "seen units units" if sizes["seen"] else None
    yield "static", "2 units" if is_static else None
    yield "norm", "2 units ?"


def _input_axes(p: Any) -> str:
    return "0" if p.input_weight is None else "time batch features"
