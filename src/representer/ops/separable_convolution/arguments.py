"""Operands and results of separable_convolution."""

from typing import Annotated, NamedTuple

from torch import Tensor

from representer.errors import ArgumentError, ShapeError
from representer.ops.operand import Operand


class Operands(NamedTuple):
    """Operands of separable_convolution."""

    x: Annotated[Tensor, Operand("samples batch inputs", on_request=True)]
    mix: Annotated[Tensor, Operand("rank filters inputs")]
    taps: Annotated[Tensor, Operand("rank filters slots")]
    stride: int
    dilation: int


class Results(NamedTuple):
    """Results of separable_convolution."""

    y: Annotated[Tensor, Operand("steps batch filters", saved=False)]


def sizes(p: Operands) -> dict[str, int]:
    """Check stride and dilation.

    Raises:
        ArgumentError: If one is below 1.
    """
    for name, value in (("stride", p.stride), ("dilation", p.dilation)):
        if value < 1:
            raise ArgumentError(name, value, "at least 1")
    return {}


def check(p: Operands, sizes: dict[str, int]) -> None:
    """Check that there is a step, and add the number of steps to the sizes.

    Raises:
        ShapeError: If there are too few samples for the filters.
    """
    rest = sizes["samples"] - (sizes["slots"] - 1) * p.dilation - 1
    if rest < 0:
        wanted = f"(samples, batch, inputs) with more than {sizes['samples'] - rest - 1} samples"
        raise ShapeError("x", tuple(p.x.shape), wanted)
    sizes["steps"] = rest // p.stride + 1
