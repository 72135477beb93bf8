"""The string-kernel layer: each option against enumeration or equations written out."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch
from torch import Tensor

from representer import nn

from ..string_layers import HIDDEN, INPUT, build_string, string_batch

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def kernels_by_enumeration(x: Tensor, references: Tensor, lam: float) -> Tensor:
    """Return the string kernels of orders 1..n of ``(T, I)`` and references ``(H, n, I)``."""
    total = x.new_zeros(references.shape[1], len(references))
    for j in range(1, len(total) + 1):
        for i in combinations(range(len(x)), j):
            products = [references[:, k] @ x[i[k]] for k in range(j)]
            total[j - 1] += lam ** (len(x) - (i[0] + 1) - j + 1) * math.prod(products)
    return total


@pytest.mark.parametrize("order", [1, 2, 3, 6])
@pytest.mark.parametrize("lam", [0.0, 0.6, 1.0])
def test_every_state_equals_the_string_kernel_with_the_first_tokens_of_the_reference(
    order: int, lam: float
):
    layer = build_string("multiply", order=order, decay=lam)
    x = string_batch(7, 1)[:, 0]
    output, state = layer(x)
    for t in range(len(x)):
        expected = kernels_by_enumeration(x[: t + 1], layer.references(), lam)
        torch.testing.assert_close(layer.cell_states(x)[t], expected, **CLOSE)
        torch.testing.assert_close(output[t], expected[-1], **CLOSE)
    torch.testing.assert_close(state.c[0], layer.cell_states(x)[-1], **CLOSE)


def test_references_can_be_modified_in_place():
    layer, other = build_string("multiply"), build_string("multiply")
    layer.references().copy_(other.references())
    x = string_batch()
    torch.testing.assert_close(layer(x)[0], other(x)[0])
    assert layer.references().shape == (HIDDEN, 2, INPUT)
    assert not layer.references().requires_grad


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("readout", ["last", "sum"])
def test_the_activation_is_applied_to_the_readout(name: str, readout: str):
    layer, x = build_string("multiply", order=3, activation=name, readout=readout), string_batch()
    states = layer.cell_states(x)
    read = states[:, :, -1] if readout == "last" else states.sum(2)
    torch.testing.assert_close(layer(x)[0], getattr(torch, name)(read), **CLOSE)


def test_the_default_activation_is_tanh():
    layer = nn.StringKernelRNN(INPUT, HIDDEN, decay=0.5, dtype=torch.float64)
    x = string_batch()
    torch.testing.assert_close(layer(x)[0], layer.cell_states(x)[:, :, -1].tanh(), **CLOSE)


def test_the_second_layer_uses_the_output_of_the_first():
    both = build_string("multiply", num_layers=2, activation="tanh")
    first, second = build_string("multiply", activation="tanh"), build_string("multiply")
    first.references().copy_(both.references(0))
    second.references().copy_(both.references(1))
    x = string_batch()
    torch.testing.assert_close(both(x)[0], second(first(x)[0])[0].tanh(), **CLOSE)
