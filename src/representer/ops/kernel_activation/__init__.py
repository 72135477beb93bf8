"""f_i(a) = sum_k chi_ik g(a - c_ik) on every backend, by a search instead of a sum (M18 (6))."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.errors import ShapeError
from representer.functional.activations import GREENS
from representer.ops import core, gpu, structs
from representer.ops.kernel_activation import reference
from representer.ops.kernel_activation.reference import Operands, Results, sizes
from representer.ops.op import Backend, Op
from representer.ops.table import OperandTable

# kernel_activation on the compiled core.


def cpp_forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    _run("activation_forward", p, out=new.output)
    return new


def cpp_backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    d_input, d_centers, d_coefficients = (
        torch.empty_like(x, memory_format=torch.contiguous_format) for x in p[:3]
    )
    _run(
        "activation_backward", p, grad=grad.output, grad_x=d_input, grad_centers=d_centers,
        grad_coefficients=d_coefficients,
    )  # fmt: skip
    return {"input": d_input, "centers": d_centers, "coefficients": d_coefficients}


def _run(operation: str, p: Operands, **tensors: Any) -> None:
    rows, features = p.input.shape
    core.run(
        operation, structs.ActivationStruct, p.input.dtype, rows=rows, features=features,
        count=p.centers.shape[1], green=list(GREENS).index(p.green), x=p.input, centers=p.centers,
        coefficients=p.coefficients, bandwidth=p.bandwidth, **tensors,
    )  # fmt: skip


MOST_CENTERS = 512  # that the GPU kernels add up one by one


def kernel_activation(
    input: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    *,
    green: str = "abs",
    bandwidth: float = 1.0,
    backend: str | None = None,
) -> Tensor:
    r"""Evaluate a kernel expansion for every feature: f_i(a) = sum_k chi_ik g(a - c_ik).

    For ``"abs"``, ``"relu"`` and ``"cubic"`` the centers are sorted, and f is a polynomial between
    two of them: an input costs a search, O(log K), and memory does not grow with K. The same holds
    for the gradients, for which the inputs of each interval are summed once. The Gaussian is summed
    over all centers.

    Arguments and results are those of ``functional.kernel_activation``. Centers may coincide, and g
    is a name. ``backend`` names a backend, which runs or raises; None is the fastest available one.

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not.
        ArgumentError: If there is no such g, or the bandwidth is not positive.
        BackendError: If the requested backend cannot run the call.

    References:
        Marra et al., Learning Neuron Non-Linearities with Kernel-Based Deep Neural Networks, 2018,
        (5), (6).
    """
    if not input.dim() or (centers.dim() == 2 and input.shape[-1] != len(centers)):
        wanted = f"(..., {len(centers)}), a feature for each row of centers"
        raise ShapeError("input", input.shape, wanted)
    rows = input.flatten(0, -2) if input.dim() > 1 else input[None]
    operands = Operands(rows, centers, coefficients, green, float(bandwidth))
    return OP(operands, backend).reshape(input.shape)


def refuses(p: Any) -> str:
    """Return why the GPU kernels cannot evaluate an expansion, or "" if they can."""
    count = p.centers.shape[1]
    if count > MOST_CENTERS and p.green != "gaussian":
        return f"sums over up to {MOST_CENTERS} centers, where a search of {count} is not faster"
    return gpu.refuses(p)


OP = Op("kernel_activation", kernel_activation, functional.kernel_activation)
OP.register(OperandTable(Operands, Results, sizes))
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(gpu.backend("kernel_activation", refuses))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
