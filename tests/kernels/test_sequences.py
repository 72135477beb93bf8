from __future__ import annotations

import numpy as np
import pytest
import torch

from representer.errors import ArgumentError, KindError, ShapeError
from representer.kernels import RecurrentKernel

k = RecurrentKernel()
a = torch.randn(4, 3)


def test_a_batch_of_equal_lengths_is_a_list_of_sequences():
    batch = torch.randn(5, 4, 3)
    torch.testing.assert_close(k(batch), k(list(batch)))


@pytest.mark.parametrize(
    ("X", "Y", "error", "message"),
    [
        ([], None, ArgumentError, r"X is \[\]; expected at least one sequence"),
        ([a], [], ArgumentError, r"Y is \[\]; expected at least one sequence"),
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
