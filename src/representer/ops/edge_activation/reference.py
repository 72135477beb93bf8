r"""edge_activation in torch: the values of g at all centers, times the coefficients.

    y = G X,    G[n, (i, k)] = g(x_ni - c_ik),    X[(i, k), j] = chi_ijk

is a product of matrices, which libraries of linear algebra are good at; inputs are taken in blocks,
so that G stays small.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from representer.functional.activations import GREENS
from representer.ops.table import Operand


class Operands(NamedTuple):
    """Operands of edge_activation."""

    input: Annotated[Tensor, Operand("batch features")]
    centers: Annotated[Tensor, Operand("features centers")]
    coefficients: Annotated[Tensor, Operand("features outputs centers")]
    green: str
    bandwidth: float


class Results(NamedTuple):
    """Results of edge_activation."""

    output: Annotated[Tensor, Operand("batch outputs", saved=False)]


MOST_VALUES = 1 << 22  # of g at one time: 16 MiB in float32
FEW_ROWS = 8  # for which the coefficients are not copied into one matrix


def slope(u: Tensor, green: str, bandwidth: float) -> Tensor:
    """Return g'(u), 0 where g has a corner."""
    match green:
        case "abs":
            return u.sign()
        case "relu":
            return (u > 0).to(u.dtype)
        case "cubic":
            return 3 * u * u.abs()
    return u / -(bandwidth**2) * GREENS[green](u, bandwidth)


def _blocks(p: Operands) -> Iterator[slice]:
    """Yield blocks of input features."""
    rows, features = p.input.shape
    size = max(1, MOST_VALUES // max(1, rows * p.centers.shape[1]))
    yield from (slice(first, first + size) for first in range(0, features, size))


def forward(p: Operands, new: Results) -> Tensor:
    """Return y ``(N, J)``."""
    total = p.input.new_zeros(len(p.input), p.coefficients.shape[1])
    if len(p.input) < FEW_ROWS:
        g = GREENS[p.green](p.input[..., None] - p.centers, p.bandwidth)
        return (p.coefficients @ g.permute(1, 2, 0)).sum(0).T.contiguous()
    for block in _blocks(p):
        g = GREENS[p.green](p.input[:, block, None] - p.centers[block], p.bandwidth)
        total += g.flatten(1) @ p.coefficients[block].mT.flatten(0, 1)
    return total


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    d_input, d_centers, d_coefficients = (
        torch.empty_like(x, memory_format=torch.contiguous_format) for x in p[:3]
    )
    if len(p.input) < FEW_ROWS:
        u = p.input[..., None] - p.centers
        g = GREENS[p.green](u, p.bandwidth).transpose(0, 1)  # (I, N, K)
        torch.matmul(grad.output.T, g, out=d_coefficients)
        d_u = (grad.output @ p.coefficients).transpose(0, 1) * slope(u, p.green, p.bandwidth)
        return {"input": d_u.sum(-1), "centers": -d_u.sum(0), "coefficients": d_coefficients}
    for block in _blocks(p):
        u = p.input[:, block, None] - p.centers[block]
        g = GREENS[p.green](u, p.bandwidth)
        chi = p.coefficients[block].mT  # (i, K, J)
        d_coefficients[block] = (g.flatten(1).mT @ grad.output).unflatten(0, chi.shape[:2]).mT
        d_u = (grad.output @ chi.flatten(0, 1).mT).view_as(u) * slope(u, p.green, p.bandwidth)
        d_input[:, block] = d_u.sum(-1)
        d_centers[block] = -d_u.sum(0)
    return {"input": d_input, "centers": d_centers, "coefficients": d_coefficients}
