from __future__ import annotations

import numpy as np
import pytest
import torch

from representer.errors import KindError, ShapeError
from representer.kernels import NgramKernel, StringKernel

k = StringKernel(order=2, base="delta")


@pytest.mark.parametrize("X", [
    ["abc", "xbc"], [["a", "bc", "d"], ["q", "bc", "d"]],
    [[("a", 1), ("b", 2), 3], ["x", ("b", 2), 3]], [np.array([5, 6, 7]), np.array([4, 6, 7])],
    np.array([[5, 6, 7], [4, 6, 7]]), [np.array(["u", "v", "w"]), ["x", "v", "w"]],
    [torch.tensor([5, 6, 7]), torch.tensor([4, 6, 7])],
    [np.array([*"abc"], dtype=object), np.array([*"xbc"], dtype=object)],
])  # fmt: skip
def test_strings_token_lists_and_integers_are_sequences_of_tokens(X):
    np.testing.assert_allclose(k(iter(X)), [[1.5, 1.0], [1.0, 1.5]])
    gram = NgramKernel((2,))(iter(X))
    np.testing.assert_allclose(gram, [[2.0, 1.0], [1.0, 2.0]])
    assert gram.dtype == np.float64


def test_integer_tensors_give_a_tensor():
    gram = k([torch.tensor([5, 6, 7]), torch.tensor([4, 6, 7])])
    assert isinstance(gram, torch.Tensor)
    torch.testing.assert_close(gram.numpy(), k(["abc", "xbc"]), check_dtype=False)


def test_tokens_have_consistent_ids_in_x_and_y():
    np.testing.assert_allclose(k(["zab"], ["ab", "xx"]), [[1.0, 0.0]])


def test_empty_strings_and_empty_lists():
    assert k([], ["ab", ""]).shape == (0, 2)
    assert k(["ab", ""], []).shape == (2, 0)
    assert k([]).dtype == k.diag([]).dtype == np.float64
    full = k(["ab"])[0, 0]
    assert full > 0
    assert k(["", "ab"]).tolist() == [[0, 0], [0, full]]
    assert k([[]], [["a", "b"], []]).tolist() == [[0, 0]]


@pytest.mark.parametrize(("X", "error", "message"), [
    ("abc", KindError, "X is str; expected a list of strings.*Put a single string into a list"),
    (3, KindError, "X is int; expected a list of strings or of lists of tokens"),
    (np.array(3), KindError, "X is ndarray; expected a list of strings or of lists of tokens"),
    (["ab", 3], KindError, r"X\[1\] is int; expected a string or a list of tokens\.$"),
    (np.array([3, 4]), KindError, r"X\[0\] is int64; .*Put a single sequence into a list\."),
    (["ab", None], KindError, r"X\[1\] is NoneType; .*Leave it out\.$"),
    (["ab", float("nan")], KindError, r"X\[1\] is float; .*Leave it out"),
    (["ab", b"ab"], KindError, r"X\[1\] is bytes; .*Decode it, with \.decode\(\)"),
    ([["a"], {"a"}], KindError, r"X\[1\] is set; expected a string or a list of tokens"),
    ([["a", None]], KindError, r"X\[0\]\[1\] is NoneType; expected a token.*Leave it out"),
    ([np.ones((3, 2))], ShapeError, r"X\[0\] has shape \(3, 2\).*one token per step.*vectors"),
    ([torch.ones(3, 2)], ShapeError, r'X\[0\] has shape \(3, 2\).*base="linear"'),
    ([[[0.5, 1.0]]], KindError, r"X\[0\]\[0\] is list; expected a token: a string.*vectors"),
    ([["a", np.ones(2)]], KindError, r"X\[0\]\[1\] is ndarray; expected a token"),
    ([["a"], ["b", float("nan")]], KindError, r"X\[1\]\[1\] is float; expected a token"),
    ([np.array([0.5, 1.0])], KindError, r"X\[0\]\[0\] is float; expected a token"),
])  # fmt: skip
def test_invalid_token_sequences_are_rejected(X, error, message):
    for call in (k, k.diag, NgramKernel(), NgramKernel().fit, k + NgramKernel()):
        with pytest.raises(error, match=message):
            call(X)
