"""The operands of walk_rounds and of its gradient, and where the rounds write what."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

from torch import Tensor

from representer.errors import ArgumentError
from representer.functional import nonlinearity
from representer.ops.walk_aggregate.arguments import check_ends


class Forward(NamedTuple):
    """Operands of the forward operator; shapes as in ``functional.walk_rounds``."""

    labels: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    weight: Tensor
    bias: Tensor
    neighbors: Tensor
    shift: Tensor
    factor: Tensor
    edge_gate: Tensor | None
    depth: int
    first: int
    scale: float
    activation: str
    keep: bool  # what the gradient needs

    SCHEMA = (
        "(Tensor labels, Tensor edge_index, Tensor edge_attr, Tensor weight, Tensor bias,"
        " Tensor neighbors, Tensor shift, Tensor factor, Tensor? edge_gate, int depth,"
        " int first, float scale, str activation, bool keep, str backend)"
        " -> (Tensor, Tensor, Tensor)"
    )


class Backward(NamedTuple):
    """Operands of the gradient operator; ``hidden`` and ``tape`` are what the forward kept."""

    grad_output: Tensor
    labels: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    weight: Tensor
    bias: Tensor
    neighbors: Tensor
    shift: Tensor
    factor: Tensor
    edge_gate: Tensor | None
    hidden: Tensor
    tape: Tensor
    depth: int
    first: int
    scale: float
    activation: str
    needs_edges: bool

    SCHEMA = (
        "(Tensor grad_output, Tensor labels, Tensor edge_index, Tensor edge_attr, Tensor weight,"
        " Tensor bias, Tensor neighbors, Tensor shift, Tensor factor, Tensor? edge_gate,"
        " Tensor hidden, Tensor tape, int depth, int first, float scale, str activation,"
        " bool needs_edges, str backend)"
        " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
    )


class Gradients(NamedTuple):
    """Results of the gradient operator; empty for what is absent or not needed."""

    labels: Tensor
    edge_attr: Tensor
    weight: Tensor
    bias: Tensor
    neighbors: Tensor
    shift: Tensor
    factor: Tensor
    edge_gate: Tensor


class Columns(NamedTuple):
    """Positions of the parts of a round's products in its rows."""

    inner: slice
    own: slice
    walks: list[slice]  # p_1 … p_n
    source: slice
    target: slice
    all: slice

    @staticmethod
    def of(p: Forward | Backward) -> Columns:
        """Return the columns of a call."""
        d, (steps, H, _) = p.labels.shape[1], p.factor.shape
        gate = 0 if p.edge_gate is None else H
        parts, end = [], 0
        for width in (d, d, *[H] * (steps + 1), gate, gate):
            parts.append(slice(end, end + width))
            end += width
        return Columns(parts[0], parts[1], parts[2:-2], parts[-2], parts[-1], slice(0, end))

    def used(self, p: Forward | Backward, level: int) -> slice:
        """Return the columns that a round needs."""
        start = 0 if level < p.depth - 1 else self.own.stop
        return slice(start, self.all.stop if level >= p.first else self.own.stop)


class Rows(NamedTuple):
    """The results of a round, one row per node: contiguous parts of one buffer."""

    # (N, R); own holds the argument of sigma afterwards, except for relu in the core
    products: Tensor
    sums: Tensor  # (n - 1, N, H), of c_2 … c_n
    told: Tensor  # (N, d), the sum for the relabeling

    @staticmethod
    def of(p: Forward | Backward, memory: Tensor) -> Rows:
        """Divide the memory of a round."""
        shapes = _shapes(p)
        parts = memory.split([prod(shape) for shape in shapes])
        return Rows(*(part.view(shape) for part, shape in zip(parts, shapes, strict=True)))


def layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    """Yield the layout of the forward operator, see ``ops.operands``."""
    nonlinearity(p.activation, "activation")
    check_rounds(p.depth, p.first)
    yield "labels", "nodes channels"
    yield "edge_index", "2 edges"
    check_ends(p.edge_index, sizes["nodes"])
    yield "edge_attr", "edges features"
    yield "factor", "steps units features"
    yield "edge_gate", "units features ?"
    gates = 0 if p.edge_gate is None else 2
    sizes["rows"] = 2 * sizes["channels"] + (sizes["steps"] + 1 + gates) * sizes["units"]
    yield "weight", "rows channels"
    yield "bias", "rows"
    yield "neighbors", "channels channels"
    yield "shift", "channels features"


def backward_layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    """Yield the layout of the gradient operator."""
    yield from layout(p, sizes)
    yield "grad_output", "nodes units"
    yield "hidden", f"{p.depth - 1} nodes channels packed"
    yield "tape", f"{p.depth} {sum(map(prod, _shapes(p)))} packed"


def check_rounds(depth: int, first: int) -> None:
    """Check how many rounds there are, and which one is read first.

    Raises:
        ArgumentError: If there are none, or no such round.
    """
    if depth < 1:
        raise ArgumentError("depth", depth, "at least 1")
    if not 0 <= first < depth:
        raise ArgumentError("first", first, f"0 to {depth - 1}, as there are {depth} rounds")


def kept_shapes(p: Forward) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of the labels and of the rounds' memory that are kept."""
    rounds = p.depth if p.keep else 0
    return (max(rounds - 1, 0), *p.labels.shape), (rounds, sum(map(prod, _shapes(p))))


def _shapes(p: Forward | Backward) -> list[tuple[int, ...]]:
    (N, d), (steps, H, _) = p.labels.shape, p.factor.shape
    return [(N, len(p.weight)), (steps, N, H), (N, d)]
