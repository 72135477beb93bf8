# type: ignore  (see walk_aggregate/triton.py)
"""walk_rounds in Triton: the sums over the neighbors; products with the labels are in BLAS."""

from __future__ import annotations

from collections.abc import Container
from functools import partial

from torch import Tensor

from representer.ops.walk_aggregate.triton import Edges, edges_of_nodes, evaluate, gradients
from representer.ops.walk_rounds import reference
from representer.ops.walk_rounds.reference import Operands, Results


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    return reference.forward(p, new, partial(evaluate, incoming=_edges(p, 1)))


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    of_a_sum = partial(gradients, incoming=_edges(p, 1), outgoing=_edges(p, 0))
    return reference.backward(p, kept, grad, requested, of_a_sum)


def _edges(p: Operands, end: int) -> Edges:
    return edges_of_nodes(p.edge_index, end, len(p.labels))
