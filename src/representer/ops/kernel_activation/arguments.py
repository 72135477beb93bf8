"""Operands and results of kernel_activation."""

from typing import Annotated, NamedTuple

from torch import Tensor

from representer.ops.operand import Operand


class Operands(NamedTuple):
    """Operands of kernel_activation."""

    input: Annotated[Tensor, Operand("batch features")]
    centers: Annotated[Tensor, Operand("features centers")]
    coefficients: Annotated[Tensor, Operand("features centers")]
    green: str
    bandwidth: float


class Results(NamedTuple):
    """Results of kernel_activation."""

    output: Annotated[Tensor, Operand("batch features", saved=False)]
