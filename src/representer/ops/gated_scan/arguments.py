"""Operands and results of gated_scan."""

from typing import Annotated, NamedTuple

from torch import Tensor

from representer.ops.operand import LENGTHS, Operand


class Operands(NamedTuple):
    """Operands of gated_scan."""

    u: Annotated[Tensor, Operand("time batch units", saved=False)]
    f: Annotated[Tensor, Operand("time batch units | units |")]
    c0: Annotated[Tensor, Operand("batch units")]
    lengths: Annotated[Tensor | None, LENGTHS]
    reverse: bool


class Results(NamedTuple):
    """Results of gated_scan."""

    states: Annotated[Tensor, Operand("time batch units")]
    final: Annotated[Tensor, Operand("batch units", saved=False)]
