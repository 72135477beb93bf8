"""kernel_activation on the compiled core."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
from torch import Tensor

from representer.functional.kernel_activation import GREENS
from representer.ops import core, structs
from representer.ops.kernel_activation.reference import Operands, Results


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    _run("activation_forward", p, out=new.output)
    return new


def backward(
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
