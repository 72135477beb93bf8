from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.errors import ArgumentError, ShapeError
from representer.functional import NONLINEARITIES
from representer.kernels import RecurrentKernel

MERCER = [name for name, q in NONLINEARITIES.items() if q.mercer]
claim = settings(deadline=None, max_examples=13)
lengths = st.lists(st.integers(0, 6), min_size=1, max_size=5)


def draw(lengths, features=3, largest=0.3):
    """Return vectors short enough for every q, including z/(2 - z)."""
    sequences = [torch.randn(n, features, dtype=torch.float64) for n in lengths]
    return [largest * x / (1e-3 + x.norm(dim=1, keepdim=True)) for x in sequences]


def window(x, t, n, d):
    """Return X_t as written: x_t, x_{t-d}, ... with zeros before the first step."""
    zero = torch.zeros_like(x[0])
    return torch.cat([x[t - s * d] if t >= s * d else zero for s in range(n)])


def literal(q, x, y, n=1, d=1):
    """Evaluate k(x, y) = q(<X_T, Y_S> + k(x_{<T}, y_{<S})) step by step."""
    if not len(x) or not len(y):
        return torch.zeros((), dtype=torch.float64)
    product = window(x, len(x) - 1, n, d) @ window(y, len(y) - 1, n, d)
    return q(product + literal(q, x[:-1], y[:-1], n, d))


def literal_gaussian(x, y):
    """Evaluate footnote 2's form; empty prefixes are equal to each other, orthogonal to others."""
    if not len(x) or not len(y):
        return torch.tensor(float(len(x) == len(y)), dtype=torch.float64)
    distance = (x[-1] / x[-1].norm() - y[-1] / y[-1].norm()).square().sum()
    hidden = 2 - 2 * literal_gaussian(x[:-1], y[:-1])
    return torch.exp(-(distance + hidden) / 2)


@claim
@given(N=lengths, M=lengths, seed=st.integers(0, 2**16))
def test_every_entry_of_the_gaussian_form_matches_the_recursion(N, M, seed):
    torch.manual_seed(seed)
    X, Y = draw(N), draw(M)
    expected = [
        [literal_gaussian(x, y) if len(x) and len(y) else torch.tensor(0.0) for y in Y] for x in X
    ]
    gram = RecurrentKernel("gaussian")(X, Y)
    torch.testing.assert_close(gram, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("q", MERCER)
@claim
@given(N=lengths, n=st.integers(1, 3), seed=st.integers(0, 2**16))
def test_the_gram_matrix_is_symmetric_positive_semidefinite(q, N, n, seed):
    torch.manual_seed(seed)
    X, kernel = draw(N), RecurrentKernel(q, filter_length=n)
    gram = kernel(X)
    torch.testing.assert_close(gram, gram.T)
    assert torch.linalg.eigvalsh(gram).min() > -1e-12
    torch.testing.assert_close(gram.diagonal(), kernel.diag(X))


def test_a_rejected_q_has_a_gram_matrix_with_negative_eigenvalues():
    X = [2 * torch.randn(1, 2, dtype=torch.float64) for _ in range(6)]
    gram = RecurrentKernel("tanh", check_mercer=False)(X)
    assert torch.linalg.eigvalsh(gram).min() < -1e-3


def test_sequences_are_aligned_from_their_last_steps():
    x, y, past = draw([2, 2, 3])
    kernel = RecurrentKernel("exponential")
    torch.testing.assert_close(kernel([torch.cat((past, x))], [y]), kernel([x], [y]))
    assert not torch.allclose(kernel([torch.cat((x, past))], [y]), kernel([x], [y]))


@pytest.mark.parametrize("q", MERCER)
@pytest.mark.parametrize("repeat", [False, True])
def test_gradients_match_numerical_gradients(q, repeat):
    kernel = RecurrentKernel(q, filter_length=2, repeat=repeat)
    X = [x.requires_grad_() for x in draw([3, 1, 2], features=2)]
    Y = [y.requires_grad_() for y in draw([2, 2], features=2)]
    assert torch.autograd.gradcheck(lambda *s: kernel(s[:3], s[3:]), (*X, *Y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_give_a_tensor_of_their_dtype(dtype):
    X = [x.to(dtype) for x in draw([3, 2])]
    kernel = RecurrentKernel()
    assert kernel(X).dtype == kernel.diag(X).dtype == dtype


@pytest.mark.parametrize("q", ["tanh", "sigmoid", torch.tanh, torch.relu])
def test_a_q_that_is_not_a_mercer_kernel_is_rejected_by_default(q):
    with pytest.raises(ArgumentError, match=r"q is .*Pass check_mercer=False"):
        RecurrentKernel(q)
    kernel = RecurrentKernel(q, check_mercer=False)
    assert kernel(draw([2])).shape == (1, 1)
    with pytest.raises(ArgumentError, match="check_mercer"):
        RecurrentKernel().set_params(q=q)(draw([2]))


@pytest.mark.parametrize(("options", "message"), [
    ({"q": "exp"}, "q is 'exp'; expected one of identity"),
    ({"q": 3}, "q is 3; expected a name of functional.NONLINEARITIES, or a callable"),
    ({"q": torch.sum}, "expected an elementwise function"),
    ({"filter_length": 0}, "filter_length is 0; expected a positive integer"),
    ({"dilation": 1.0}, "dilation is 1.0; expected a positive integer"),
])  # fmt: skip
def test_invalid_arguments_are_rejected(options, message):
    with pytest.raises(ArgumentError, match=message):
        RecurrentKernel(**options)


def test_references_must_be_windows():
    kernel = RecurrentKernel(filter_length=2, repeat=True)
    with pytest.raises(ShapeError, match=r"Y\[1\] has shape \(3, 3\); expected \(2, features\)"):
        kernel(draw([4]), draw([2, 3]))


def test_repeat_concerns_a_given_Y_only():
    kernel, plain = RecurrentKernel(filter_length=2, repeat=True), RecurrentKernel(filter_length=2)
    X = draw([4, 2, 0])
    np.testing.assert_array_equal(kernel(X), plain(X))
    np.testing.assert_array_equal(kernel.diag(X), plain.diag(X))
