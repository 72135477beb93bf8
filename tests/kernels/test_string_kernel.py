""""""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import string_kernel_definition
from representer.kernels import (
    DeepStringKernel,
    Gaussian,
    InversePolynomial,
    Linear,
    Polynomial,
    RecurrentKernel,
    StringKernel,
    sequences,
)

claim = settings(deadline=None, max_examples=8)
VARIANTS = list(product(["multiply", "add"], [False, True, "exact"], [True, False]))
words = st.lists(st.text("abc", max_size=10), min_size=1, max_size=4)
decays = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))
seeds = st.integers(0, 2**16)
a = torch.randn(4, 3, dtype=torch.float64)


def draw(lengths, features=3):
    return [torch.randn(n, features, dtype=torch.float64) for n in lengths]


def literal(kernel, x, y, similarities):
    return string_kernel_definition(
        similarities(x, y), kernel.order, kernel.decay, combine=kernel.combine,
        normalized=kernel.normalized, trailing=kernel.trailing,
    )  # fmt: skip


def delta(x, y):
    same = [[float(a == b) for b in y] for a in x]
    return torch.tensor(same, dtype=torch.float64).reshape(len(x), len(y))


@pytest.mark.parametrize(("combine", "normalized", "trailing"), VARIANTS)
@claim
@given(X=words, Y=words, n=st.integers(1, 4), lam=decays)
def test_the_gram_matrix_of_strings_matches_the_enumeration(
    combine, normalized, trailing, X, Y, n, lam
):
    kernel = StringKernel(n, lam, combine, normalized, base="delta", trailing=trailing)
    for given_y, other in ((Y, Y), (None, X)):
        expected = [[literal(kernel, x, y, delta) for y in other] for x in X]
        np.testing.assert_allclose(kernel(X, given_y), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), kernel(X).diagonal(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("combine", "normalized", "trailing"), VARIANTS)
@claim
@given(
    N=st.lists(st.integers(0, 6), min_size=1, max_size=4), d=st.integers(1, 3),
    n=st.integers(1, 4), lam=decays, seed=seeds,
)  # fmt: skip
def test_the_gram_matrix_of_vectors_matches_the_enumeration(
    combine, normalized, trailing, N, d, n, lam, seed
):
    torch.manual_seed(seed)
    kernel = StringKernel(n, lam, combine, normalized, trailing=trailing)
    X, Y = draw(N, d), draw([3, 0, 5], d)
    for given_y, other in ((Y, Y), (None, X)):
        expected = [[literal(kernel, x, y, lambda x, y: x @ y.T) for y in other] for x in X]
        torch.testing.assert_close(
            kernel(X, given_y), torch.tensor(expected).double(), rtol=1e-10, atol=1e-10
        )
    torch.testing.assert_close(kernel.diag(X), kernel(X).diagonal(), rtol=1e-10, atol=1e-10)


BY_HAND = {  # lambda = 1/2; product, sum, product / masses, sum / masses, gaps alone
    ("abc", "abc"): ("21/16 21/16 3/7 3/7 3", "3/2 9/2 3/8 9/8 9/4", "1 3 1 3 1"),
    ("abab", "ab"): ("25/16 25/16 5/9 5/9 4", "3/2 15/4 6/11 15/11 9/4", "0 0 0 0 0"),
    ("aba", "bab"): ("5/4 5/4 20/49 20/49 4", "1 7/2 1/4 7/8 2", None),
    ("abca", "aca"): ("53/32 53/32 53/105 53/105 5", "5/4 19/4 5/22 19/22 13/8", "1/2 5 1/5 2 1/2"),
    ("V1", "V2"): ("1/2 1/2 4/21 4/21 4", "1 5/2 1/2 5/4 2", None),
}
VECTORS = {"V1": [(1, 2), (0, 1), (-1, 1)], "V2": [(2, 0), (1, 1)]}
COLUMNS = (
    {}, {"combine": "add"}, {"normalized": "exact"}, {"combine": "add", "normalized": "exact"},
    {"trailing": False},
)  # fmt: skip


@pytest.mark.parametrize("combine", ["multiply", "add"])
@pytest.mark.parametrize("normalized", [False, "exact"])
def test_a_sequence_without_n_grams_has_kernel_0(combine, normalized):
    kernel = StringKernel(3, 0.5, combine, normalized)
    X = draw([0, 2, 5])
    assert kernel(X).count_nonzero() == 1
    assert kernel.diag(X).count_nonzero() == 1
    assert kernel([x.numpy() for x in X], [[]]).tolist() == [[0.0], [0.0], [0.0]]
    assert kernel([[], []]).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    strings = StringKernel(3, 0.5, combine, normalized, base="delta")
    assert strings(["", "ab"]).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert strings(["", "abc"]).tolist()[0] == [0.0, 0.0]


@pytest.mark.parametrize(("combine", "normalized", "trailing"), VARIANTS)
def test_gradients_by_tokens_and_lambda_match_numerical_ones(combine, normalized, trailing):
    def gram(lam, *X):
        kernel = StringKernel(2, lam, combine, normalized, trailing=trailing)
        return kernel(X), kernel(X[:2], X[2:]), kernel.diag(X)

    lam = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        gram, (lam, *(x.requires_grad_() for x in draw([3, 4, 1], 2))), fast_mode=True
    )


def test_only_lambda_can_require_a_gradient_for_vectors_and_tokens():
    lam = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    tokens = [torch.tensor([0, 1, 0, 2]), torch.tensor([1, 0, 2])]
    for base, X in (("delta", tokens), ("linear", draw([4, 3], 9))):
        assert torch.autograd.gradcheck(
            lambda lam, base=base, X=X: StringKernel(3, lam, base=base)(X), (lam,)
        )
    of_arrays = StringKernel(3, lam)([x.numpy() for x in X])
    torch.testing.assert_close(of_arrays, StringKernel(3, lam)(X))
    with torch.no_grad():
        assert not StringKernel(3, lam)([x.numpy() for x in X]).requires_grad


def test_long_sequences_are_processed_in_blocks(monkeypatch):
    X, kernel = draw([3, 9, 2, 7, 5]), StringKernel(3, 0.7, base=Linear())
    whole = kernel(X), kernel(X[:2], X)
    monkeypatch.setattr("representer.kernels.sequences.BLOCK", 20)
    torch.testing.assert_close((kernel(X), kernel(X[:2], X)), whole)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_features_are_processed_in_parts(monkeypatch, n):
    """Long sequences of few features, for which the feature map is fastest."""
    X, kernel = draw([30, 40, 25], 3), StringKernel(n, 0.7, normalized="exact")
    pairs = StringKernel(n, 0.7, normalized="exact", base=Linear())(X)
    torch.testing.assert_close(kernel(X), pairs)
    monkeypatch.setattr("representer.kernels.string_kernel.FEATURES", 3 * 3 ** (n - 1) * 2)
    torch.testing.assert_close(kernel(X), pairs)
    torch.testing.assert_close(kernel(X, X[1:]), pairs[:, 1:])


@pytest.mark.parametrize(("options", "message"), [
    ({"order": 0}, "order is 0; expected a positive integer"),
    ({"order": 2.0}, "order is 2.0; expected a positive integer"),
    ({"decay": 1.5}, r"decay is 1.5; expected a number in \[0, 1\]"),
    ({"decay": -0.1}, r"decay is -0.1; expected a number in \[0, 1\]"),
    ({"decay": float("nan")}, r"decay is nan; expected a number in \[0, 1\]"),
    ({"decay": "gated"}, r"decay is 'gated'; expected a number in \[0, 1\]"),
    ({"combine": "sum"}, "combine is 'sum'; expected 'multiply' or 'add'"),
    ({"normalized": "yes"}, "normalized is 'yes'; expected False, True or 'exact'"),
    ({"base": "cosine"}, "base is 'cosine'; expected 'linear', 'delta' or a kernel"),
    ({"base": StringKernel()}, r"base is StringKernel\(\); expected 'linear', 'delta' or"),
    ({"trailing": "no"}, "trailing is 'no'; expected True or False"),
])  # fmt: skip
def test_invalid_arguments_are_rejected(options, message):
    with pytest.raises(ArgumentError, match=message):
        StringKernel(**options)
    with pytest.raises(ArgumentError, match=message):
        StringKernel().set_params(**options)(draw([2]))


def test_a_changed_base_is_checked_by_the_kernel_and_its_network():
    for kernel in (StringKernel(2, base=Gaussian()), DeepStringKernel([1], base=Gaussian())):
        kernel.base.bandwidth = -1.0
        with pytest.raises(ArgumentError, match="bandwidth is -1"):
            kernel(draw([2]))
    network = StringKernel(2, base=Gaussian()).network(3, 2).double()
    network.kernel.base.bandwidth = -1.0
    with pytest.raises(ArgumentError, match="bandwidth is -1"):
        network.evaluate(draw([2]))


def nan_at(step, feature):
    x = a.clone()
    x[step, feature] = float("nan")
    return x


@pytest.mark.parametrize(("X", "Y", "error", "message"), [
    ([a, nan_at(2, 1)], None, ArgumentError, r"X\[1\]\[2, 1\] is nan; expected a finite number"),
    ([a], [nan_at(0, 2)], ArgumentError, r"Y\[0\]\[0, 2\] is nan; .*Drop or fill"),
    ([a, a * np.inf], None, ArgumentError, r"X\[1\]\[0, 0\] is -?inf; expected a finite"),
    ([a], [a[:, :2]], ShapeError, r"Y\[0\] has shape \(4, 2\); expected \(time, 3\)"),
    (["ab"], None, KindError, r'X\[0\] is str; .*Strings and tokens .* base="delta"'),
    ("ab", None, KindError, r'X is str; expected a list of sequences.*base="delta"'),
    ([["a", "b"]], None, KindError, r'X\[0\] is list; .*numbers.*base="delta"'),
])  # fmt: skip
def test_invalid_sequences_are_rejected(X, Y, error, message):
    with pytest.raises(error, match=message):
        StringKernel()(X, Y)


def test_a_binary_kernel_refuses_what_it_is_not_defined_for():
    for options, message in [
        ({"base": "linear"}, "base is 'linear'; expected 'delta' with binary=True"),
        ({"combine": "add"}, "combine is 'add'; expected 'multiply' with binary=True"),
        ({"normalized": "exact"}, "normalized is 'exact'; expected False with binary=True"),
        ({"trailing": False}, "trailing is False; expected True with binary=True"),
        ({"binary": 1}, "binary is 1; expected True or False"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            StringKernel(**{"base": "delta", "binary": True, **options})
    kernel = StringKernel(2, 1, base="delta", binary=True, trailing=False)  # all weights are 1
    assert kernel(["abab"], ["baab"]).tolist() == [[4]]
    with pytest.raises(ArgumentError, match="equality"):
        kernel.network(3, 4)


def test_a_binary_kernel_is_positive_semidefinite_and_a_function_of_its_decay():
    X = ["", "a", "abab", "baab", "aabb", "abcabcabc", "ccc"]
    for lam in (0.0, 0.3, 1.0):
        kernel = StringKernel(2, lam, base="delta", binary=True)
        gram = kernel(X)
        assert np.linalg.eigvalsh(gram).min() > -1e-12
        np.testing.assert_allclose(gram.diagonal(), kernel.diag(X))
        np.testing.assert_allclose(kernel(X, X[::-1]), gram[:, ::-1])
    lam = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    value = StringKernel(2, lam, base="delta", binary=True)(["abab"], ["baab"])
    (slope,) = torch.autograd.grad(value.sum(), lam)
    assert slope.item() == pytest.approx(2.25)  # of 1 + 3 lam^3, 1.375 at 1/2


def test_counts_of_distinct_n_grams_are_exact():
    """C(40, 20) of them in two sequences of 40 tokens."""
    x = [list(range(40))]
    value = StringKernel(20, 1, base="delta", binary=True)(x)[0, 0]
    assert value == math.comb(40, 20)


@pytest.mark.parametrize("pairs", [1, 40])
def test_sequences_are_padded_once_on_cuda(pairs: int, monkeypatch: pytest.MonkeyPatch):
    items = [0.3 * torch.randn(n, 3, dtype=torch.float64) for n in (4, 7, 1, 5)]
    kernels_ = (
        StringKernel(2, 0.5, combine="add"), DeepStringKernel((2, 2), 0.5),
        RecurrentKernel("linear"),
    )  # fmt: skip
    calls = (items, None), (items, items[1:3])
    expected = [kernel(X, Y) for kernel in kernels_ for X, Y in calls]
    padded, pad = [], sequences._padded
    monkeypatch.setattr(sequences, "_is_on_cuda", lambda item: True)
    monkeypatch.setattr(sequences, "BLOCK_ON_CUDA", pairs)  # one other sequence at a time, or all
    monkeypatch.setattr(sequences, "_padded", lambda items: padded.append(items) or pad(items))
    found = [kernel(X, Y) for kernel in kernels_ for X, Y in calls]
    for ours, exact in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-12, atol=1e-12)
    assert len(padded) <= len(found)


def test_sequences_on_cuda_are_checked_at_once(monkeypatch: pytest.MonkeyPatch):
    items = [torch.ones(n, 2) for n in (3, 1, 4)]
    monkeypatch.setattr(sequences, "_is_on_cuda", lambda item: True)
    with monkeypatch.context() as patched:
        patched.setattr(sequences, "_check_finite", None)
        StringKernel(2)(items)
    items[1][0, 1] = math.nan
    with pytest.raises(ArgumentError, match=r"X\[1\]\[0, 1\]"):
        StringKernel(2)(items)


def draw_deep(lengths, features=2, scale=0.5):
    return [scale * torch.randn(n, features, dtype=torch.float64) for n in lengths]


def literal_deep(x, y, orders, decays, activation):
    """Evaluate K^(L)(x, y) by the recursion of section 2.2, over all prefixes and n-grams."""
    n, lam = orders[-1], decays[-1]

    @cache
    def below(i, k):
        a, b = x[: i + 1], y[: k + 1]
        if len(orders) == 1:
            return a[-1] @ b[-1]
        values = [literal_deep(*pair, orders[:-1], decays[:-1], activation)
                  for pair in ((a, b), (a, a), (b, b))]  # fmt: skip
        return activation.of_products(*values)

    total = torch.zeros((), dtype=torch.float64)
    for i in combinations(range(len(x)), n):
        for k in combinations(range(len(y)), n):
            weight = lam ** (len(x) - i[0] - n) * lam ** (len(y) - k[0] - n)
            for a, b in zip(i, k, strict=True):
                weight = weight * below(a, b)
            total = total + weight
    return total


@pytest.mark.parametrize("activation", [Gaussian(), Polynomial(2, 0.5), InversePolynomial()])
@pytest.mark.parametrize("orders", [(1, 2), (2, 1), (2, 2), (1, 1, 2)])
def test_every_entry_matches_the_recursion(activation, orders):
    torch.manual_seed(0)
    decays = (0.3, 0.4, 0.6)[: len(orders)]  # small enough for 1/(2 - K)
    X = draw_deep([3, 0, 4, 1], scale=0.3)
    gram = DeepStringKernel(orders, decays, activation)(X)
    expected = [[literal_deep(x, y, orders, decays, activation) for y in X] for x in X]
    torch.testing.assert_close(gram, torch.tensor(expected, dtype=torch.float64))


def test_one_layer_equals_the_string_kernel_and_two_linear_layers_filter_twice():
    X = draw_deep([3, 0, 5])
    for options in ({}, {"combine": "add"}, {"normalized": "exact"}, {"normalized": True}):
        deep = DeepStringKernel((2,), 0.7, **options)(X)
        torch.testing.assert_close(deep, StringKernel(2, 0.7, **options)(X))
    words = ["abca", "", "ca"]
    np.testing.assert_allclose(
        DeepStringKernel((3,), base="delta")(words), StringKernel(3, base="delta")(words)
    )
    filtered = []
    for x in X:
        c = torch.zeros(len(x) + 1, 2, dtype=torch.float64)
        for t in range(len(x)):
            c[t + 1] = 0.7 * c[t] + x[t]
        filtered.append(c[1:])
    torch.testing.assert_close(
        DeepStringKernel((1, 2), (0.7, 0.4), Linear())(X), StringKernel(2, 0.4)(filtered)
    )


def test_the_default_activation_is_that_of_lemma_1_and_rejects_large_values():
    X = draw_deep([3, 4], scale=0.3)
    torch.testing.assert_close(
        DeepStringKernel()(X), DeepStringKernel(activation=InversePolynomial())(X)
    )
    with pytest.raises(ArgumentError, match="below 2"):
        DeepStringKernel()([50 * x for x in X])


def test_padding_does_not_reach_the_limit_of_the_activation():
    """Sums over slots grow with every step, including padding."""
    short, long = torch.full((2, 1), 0.9), torch.full((12, 1), 0.0147)
    kernel = DeepStringKernel((2, 1), 1.0, combine="add")
    gram = kernel([short, long])
    torch.testing.assert_close(gram[:1, 1:], kernel([short], [long]))
    torch.testing.assert_close(gram[1:, :1], kernel([long], [short]))


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"orders": ()}, ArgumentError, "orders is .*; expected a list of the layers' orders"),
    ({"orders": (2, 0)}, ArgumentError, r"orders\[1\] is 0; expected a positive integer"),
    ({"decay": (0.5, 2)}, ArgumentError, r"decay\[1\] is 2; expected a number in \[0, 1\]"),
    ({"decay": (0.5,)}, ArgumentError, "one number for each of the 2 layers"),
    ({"decay": -1}, ArgumentError, r"decay is -1; expected a number in \[0, 1\]"),
    ({"activation": "tanh"}, KindError, "activation is 'tanh'; expected a kernel of vectors"),
    ({"base": "dot"}, ArgumentError, "base is 'dot'"),
])  # fmt: skip
def test_invalid_arguments_of_deep_kernels_are_rejected(options, error, message):
    with pytest.raises(error, match=message):
        DeepStringKernel(**options)
