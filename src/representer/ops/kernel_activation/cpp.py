"""kernel_activation on the compiled core."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.functional.kernel_activation import GREENS
from representer.ops import core, structs
from representer.ops.core import pointer


def forward(
    input: Tensor, centers: Tensor, coefficients: Tensor, green: str, bandwidth: float
) -> Tensor:
    """Return f ``(N, F)``."""
    input, tables = input.contiguous(), (centers.contiguous(), coefficients.contiguous())
    output = input.new_empty(input.shape)
    results = (output, None, None, None)
    _call("activation_forward", input, tables, None, results, green, bandwidth)
    return output


def backward(
    grad: Tensor,
    input: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    green: str,
    bandwidth: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of input, centers and coefficients."""
    input, tables = input.contiguous(), (centers.contiguous(), coefficients.contiguous())
    found = [torch.empty_like(x) for x in (input, *tables)]
    results = (None, *found)
    _call("activation_backward", input, tables, grad.contiguous(), results, green, bandwidth)
    return found[0], found[1], found[2]


def refuses(input: Tensor, *arguments: Any) -> str:
    """Say why the core cannot run a call of the op; "" if it can."""
    return core.refuses(input.dtype)


def _call(
    operation: str,
    input: Tensor,
    tables: tuple[Tensor, Tensor],
    grad: Tensor | None,
    results: tuple[Tensor | None, ...],
    green: str,
    bandwidth: float,
) -> None:
    rows, features = input.shape
    arguments = structs.ActivationStruct(
        rows, features, tables[0].shape[1], list(GREENS).index(green), core.threads(),
        *map(pointer, (input, *tables, grad, *results)), bandwidth,
    )  # fmt: skip
    core.call(operation, input.dtype, arguments)
