"""Kernels as plain values, for files."""

from __future__ import annotations

import json

import pytest
import torch

from representer import kernels
from representer.errors import ArgumentError
from representer.kernels import Gaussian, Polynomial, RecurrentKernel, StringKernel
from representer.kernels.plain import KIND, from_plain, to_plain

EXPRESSIONS = [
    StringKernel(3, 0.25, trailing=False, base=Gaussian(0.5)),
    2.5 * StringKernel(1) + StringKernel(2).cosine() * StringKernel(1, 0.1),
    (StringKernel(2) ** 3).activated(Polynomial(2, offset=0.5)),
    RecurrentKernel("linear", static_gates=(0.7, 0.9)),
    kernels.DeepStringKernel((2, 3), (0.5, 0.25), activation=kernels.Linear()),
]


@pytest.mark.parametrize("kernel", EXPRESSIONS, ids=repr)
def test_a_kernel_comes_back_from_json(kernel):
    again = from_plain(json.loads(json.dumps(to_plain(kernel))))
    assert repr(again) == repr(kernel)
    x = [torch.rand(6, 2, dtype=torch.float64) * 0.3 for _ in range(3)]
    torch.testing.assert_close(again(x), kernel(x), rtol=0, atol=0)


def test_a_learned_number_is_saved_as_its_value():
    kernel = StringKernel(2, torch.tensor(0.25, requires_grad=True))
    assert from_plain(to_plain(kernel)).decay == 0.25


def test_what_files_cannot_hold_is_named():
    with pytest.raises(ArgumentError, match=r"RecurrentKernel\.q"):
        to_plain(RecurrentKernel(torch.exp))
    with pytest.raises(ArgumentError, match="Custom"):
        to_plain(type("Custom", (StringKernel,), {})())


@pytest.mark.parametrize(
    "values",
    [{}, {KIND: "GramTransformer"}, {KIND: "os"}, {KIND: "StringKernel", "orders": 2}],
    ids=str,
)
def test_damaged_values_are_refused(values):
    with pytest.raises(ValueError, match=r"names no kernel|orders"):
        from_plain(values)
