"""y_j = sum_i f_ij(x_i), f_ij(a) = sum_k chi_ijk g(a - c_ik), by two or four rows of a table."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.errors import ShapeError
from representer.functional.activations import GREENS
from representer.ops import core, gpu, structs
from representer.ops.edge_activation import reference
from representer.ops.edge_activation.reference import Operands, Results
from representer.ops.kernel_activation.reference import sizes
from representer.ops.op import Backend, Op
from representer.ops.table import OperandTable

# edge_activation on the compiled core.

FEWEST_ROWS = 4  # for fewer, the table of a call takes longer than the sums over all centers


def _is_product(p: Operands) -> bool:
    """Return True if the product of matrices is as fast: Gaussians are no polynomials."""
    return p.green == "gaussian" or len(p.input) < FEWEST_ROWS or not p.input.shape[1]


def cpp_forward(p: Operands, new: Results) -> Any:
    """Fill in the results."""
    if _is_product(p):
        return reference.forward(p, new)
    _run("edges_forward", p, out=new.output)
    return new


def cpp_backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    if _is_product(p):
        return reference.backward(p, kept, grad, requested)
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
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(gpu.backend("edge_activation"))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
