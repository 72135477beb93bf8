from __future__ import annotations

import numpy as np
import pytest
import torch

from representer.errors import KindError, ShapeError
from representer.kernels import DeepStringKernel, Gaussian, RecurrentKernel, StringKernel

k = RecurrentKernel()
a = torch.randn(4, 3)


def test_a_batch_of_equal_lengths_is_a_list_of_sequences():
    batch = torch.randn(5, 4, 3)
    torch.testing.assert_close(k(batch), k(list(batch)))


@pytest.mark.parametrize(
    ("X", "Y", "error", "message"),
    [
        ("ab", None, KindError, r"X is str; expected a list of sequences"),
        (3, None, KindError, r"X is int; expected a list of sequences"),
        (a, None, ShapeError, r"X\[0\] has shape \(3,\).*Put a single sequence into a list"),
        ([a[None]], None, ShapeError, r"X\[0\] has shape \(1, 4, 3\); expected \(time, features\)"),
        ([a[:, :0]], None, ShapeError, r"X\[0\] has shape \(4, 0\); expected \(time, features\)"),
        ([a, a[:, :2]], None, ShapeError, r"X\[1\] has shape \(4, 2\); expected \(time, 3\)"),
        ([a], [a[:, :2]], ShapeError, r"Y\[0\] has shape \(4, 2\); expected \(time, 3\)"),
        ([a.int()], None, KindError, r"X\[0\] is torch.int32; expected a floating-point dtype"),
        ([a, a.double()], None, KindError, r"X\[1\] is torch.float64; expected torch.float32"),
        ([a], [a.double()], KindError, r"Y\[0\] is torch.float64; .*Use Y\[0\].to"),
        ([a, a.numpy()], None, KindError, r"X\[1\] is ndarray; expected a tensor"),
        ([a.numpy()], [a], KindError, r"Y\[0\] is Tensor; expected an array or nested lists"),
        (["ab"], None, KindError, r"X\[0\] is str; expected a tensor, an array or nested lists"),
        ([[[1], [1, 2]]], None, KindError, r"X\[0\] is list; expected a tensor, an array"),
        ([None], None, KindError, r"X\[0\] is NoneType; expected a tensor, an array"),
    ],
)
def test_invalid_sequences_are_rejected(X, Y, error, message):
    with pytest.raises(error, match=message):
        k(X, Y)


def test_an_array_is_copied_before_it_becomes_a_tensor():
    x = np.ones((2, 3))
    x.setflags(write=False)  # torch warns about read-only arrays
    assert k([x]).shape == (1, 1)


KERNELS = {
    "recurrent": k,
    "recurrent, n-grams": RecurrentKernel("relu", filter_length=2, check_mercer=False),
    "string": StringKernel(order=2),
    "string, of trigrams, normalized": StringKernel(order=3, combine="add", normalized="exact"),
    "string, base kernel": StringKernel(base=Gaussian()),
    "deep": DeepStringKernel(orders=(2, 1), decay=0.1),
    "sum": StringKernel() + RecurrentKernel(),
}


@pytest.mark.parametrize("name", KERNELS)
def test_an_empty_sequence_has_no_n_gram_so_its_kernel_is_zero(name):
    kernel, full = KERNELS[name], [0.1 * torch.rand(n, 2).double() for n in (3, 4)]
    empty = torch.zeros(0).double()
    own, batch = kernel(full), kernel([empty, *full])
    torch.testing.assert_close(batch[1:, 1:], own)
    assert not batch[0].any()
    assert not batch[:, 0].any()
    torch.testing.assert_close(kernel.diag([empty, *full]), batch.diagonal())
    for X, Y in (([empty], full), (full, [empty]), ([empty], [empty])):
        assert kernel(X, Y).tolist() == [[0.0] * len(Y)] * len(X)
    lists = [one.tolist() for one in full]
    for X, Y in (([[]], lists), (lists, [[]]), ([[], []], [[]])):
        assert kernel(X, Y).tolist() == [[0.0] * len(Y)] * len(X)


@pytest.mark.parametrize("name", KERNELS)
def test_the_gram_matrix_of_no_sequences_is_empty(name):
    kernel, full = KERNELS[name], [0.1 * torch.rand(n, 2) for n in (3, 4)]
    for X, Y, shape in (([], full, (0, 2)), (full, [], (2, 0))):
        assert kernel(X, Y).shape == shape
        assert kernel(X, Y).dtype is torch.float32
        assert kernel([x.tolist() for x in X], [y.tolist() for y in Y]).dtype == np.float64
    assert kernel([]).shape == kernel([], []).shape == (0, 0)
    assert kernel.diag([]).shape == (0,)
    assert kernel(torch.zeros(0, 3, 2), full).shape == (0, 2)
