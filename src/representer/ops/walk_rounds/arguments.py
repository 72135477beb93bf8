"""Operands and results of walk_rounds."""

from math import prod
from typing import Annotated, Any, NamedTuple

from torch import Tensor

from representer.errors import ArgumentError, ShapeError
from representer.functional import nonlinearity
from representer.ops.operand import Operand
from representer.ops.walk_aggregate.arguments import EDGES


def _keeps(p: Any) -> bool:
    return p.keep


class Operands(NamedTuple):
    """Operands of walk_rounds."""

    labels: Annotated[Tensor, Operand("nodes channels")]
    edge_index: Annotated[Tensor, EDGES]
    edge_attr: Annotated[Tensor, Operand("edges features", on_request=True)]
    weight: Annotated[Tensor, Operand("rows channels")]
    bias: Annotated[Tensor, Operand("rows")]
    neighbors: Annotated[Tensor, Operand("channels channels")]
    shift: Annotated[Tensor, Operand("channels features")]
    factor: Annotated[Tensor, Operand("steps units features")]
    edge_gate: Annotated[Tensor | None, Operand("units features")]
    depth: int
    first: int
    scale: float
    activation: str
    keep: bool

    @property
    def parts(self) -> list[tuple[int, ...]]:
        """Shapes of the parts of a round's memory, see ``reference.Rows``."""
        (N, d), (steps, H, _) = self.labels.shape, self.factor.shape
        return [(N, len(self.weight)), (steps, N, H), (N, d)]


class Results(NamedTuple):
    """Results of walk_rounds: the sum, and the labels and the memory of every round."""

    y: Annotated[Tensor, Operand("nodes units", saved=False)]
    hidden: Annotated[
        Tensor, Operand("relabelings nodes channels", needed=_keeps, differentiable=False)
    ]
    tape: Annotated[Tensor, Operand("rounds tape", needed=_keeps, differentiable=False)]


def sizes(p: Operands) -> dict[str, int]:
    """Check the options of a call, and return the sizes that they determine.

    Raises:
        ArgumentError: If there is no such function, or no such round.
    """
    nonlinearity(p.activation, "activation")
    if p.depth < 1:
        raise ArgumentError("depth", p.depth, "at least 1")
    if not 0 <= p.first < p.depth:
        expected = f"0 to {p.depth - 1}, as there are {p.depth} rounds"
        raise ArgumentError("first", p.first, expected)
    return {"rounds": p.depth, "relabelings": p.depth - 1}


def check(p: Operands, sizes: dict[str, int]) -> None:
    """Check the number of rows of the weight, and add the size of a round's memory.

    Raises:
        ShapeError: If there are not as many as the parts of a round have.
    """
    gates = 0 if p.edge_gate is None else 2
    rows = 2 * sizes["channels"] + (sizes["steps"] + 1 + gates) * sizes["units"]
    if sizes["rows"] != rows:
        raise ShapeError("weight", tuple(p.weight.shape), f"({rows}, {sizes['channels']})")
    sizes["tape"] = sum(prod(shape) for shape in p.parts)
