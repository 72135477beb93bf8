"""The operands of rkm_scan and of its gradient, in the order of their schemas."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

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
        """Which cell."""
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
        """Which cell."""
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
