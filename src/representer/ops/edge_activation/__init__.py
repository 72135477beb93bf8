"""y_j = sum_i f_ij(x_i), f_ij(a) = sum_k chi_ijk g(a - c_ik), by two or four rows of a table."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer import functional
from representer.errors import ShapeError
from representer.functional.activations import GREENS
from representer.ops import core, gpu, structs
from representer.ops.kernel_activation import sizes
from representer.ops.op import Backend, Op
from representer.ops.table import Operand, OperandTable

# edge_activation in torch: the values of g at all centers, times the coefficients.
#
#     y = G X,    G[n, (i, k)] = g(x_ni - c_ik),    X[(i, k), j] = chi_ijk
#
# is a product of matrices, which libraries of linear algebra are good at; inputs are taken in
# blocks, so that G stays small.


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


# edge_activation on the compiled core.

FEWEST_ROWS = 4  # for fewer, the table of a call takes longer than the sums over all centers


def _is_product(p: Operands) -> bool:
    """Return True if the product of matrices is as fast: Gaussians are no polynomials."""
    return p.green == "gaussian" or len(p.input) < FEWEST_ROWS or not p.input.shape[1]


def cpp_forward(p: Operands, new: Results) -> Any:
    """Fill in the results."""
    if _is_product(p):
        return forward(p, new)
    _run("edges_forward", p, out=new.output)
    return new


def cpp_backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    if _is_product(p):
        return backward(p, kept, grad, requested)
    results = {
        name: torch.empty_like(x, memory_format=torch.contiguous_format)
        for name, x in zip(p._fields, p[:3], strict=False)
    }
    d_input, d_centers, d_coefficients = results.values()
    _run(
        "edges_backward", p, grad=grad.output, grad_x=d_input, grad_centers=d_centers,
        grad_coefficients=d_coefficients,
    )  # fmt: skip
    return results


def _run(operation: str, p: Operands, **tensors: Any) -> None:
    features, outputs, count = p.coefficients.shape
    core.run(
        operation, structs.EdgesStruct, p.input.dtype, rows=len(p.input), features=features,
        outputs=outputs, count=count, green=list(GREENS).index(p.green), x=p.input,
        centers=p.centers, coefficients=p.coefficients, **tensors,
    )  # fmt: skip


def edge_activation(
    input: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    *,
    green: str = "abs",
    bandwidth: float = 1.0,
    backend: str | None = None,
) -> Tensor:
    r"""Sum a kernel expansion on every edge between inputs and outputs.

    .. math:: y_j = \sum_i f_{ij}(x_i), \qquad f_{ij}(a) = \sum_k \chi_{ijk}\, g(a - c_{ik})

    All edges of an input share its centers. For ``"abs"``, ``"relu"`` and ``"cubic"`` the functions
    are polynomials between two centers, and an input costs a search and two (four for ``"cubic"``)
    rows of a table, whatever K; the same holds for the gradients.

    Arguments and results are those of ``functional.edge_activation``. Centers may coincide, and g
    is a name. ``backend`` names a backend, which runs or raises; None is the fastest available one.

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not.
        ArgumentError: If there is no such g, or the bandwidth is not positive.
        BackendError: If the requested backend cannot run the call.

    References:
        Marra et al., Learning Neuron Non-Linearities with Kernel-Based Deep Neural Networks, 2018,
        (5), (6), with a function on every edge instead of every neuron.
    """
    if not input.dim() or (centers.dim() == 2 and input.shape[-1] != len(centers)):
        wanted = f"(..., {len(centers)}), an entry for each row of centers"
        raise ShapeError("input", input.shape, wanted)
    rows = input.flatten(0, -2) if input.dim() > 1 else input[None]
    output = OP(Operands(rows, centers, coefficients, green, float(bandwidth)), backend)
    return output.reshape(*input.shape[:-1], output.shape[-1])


OP = Op("edge_activation", edge_activation, functional.edge_activation)
OP.register(OperandTable(Operands, Results, sizes))
OP.add_backend(Backend("reference", (), forward, backward))
OP.add_backend(gpu.backend("edge_activation"))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
