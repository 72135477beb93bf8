from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import settings

from representer.errors import ArgumentError, KindError
from representer.kernels import (
    DeepStringKernel,
    Gaussian,
    InversePolynomial,
    Linear,
    Polynomial,
    StringKernel,
)

claim = settings(deadline=None, max_examples=6)


def draw(lengths, features=2, scale=0.5):
    return [scale * torch.randn(n, features, dtype=torch.float64) for n in lengths]


def literal(x, y, orders, decays, activation):
    """Evaluate K^(L)(x, y) by the recursion of section 2.2, over all prefixes and n-grams."""
    n, lam = orders[-1], decays[-1]

    @cache
    def below(i, k):
        a, b = x[: i + 1], y[: k + 1]
        if len(orders) == 1:
            return a[-1] @ b[-1]
        values = [literal(*pair, orders[:-1], decays[:-1], activation)
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
    X = draw([3, 0, 4, 1], scale=0.3)
    gram = DeepStringKernel(orders, decays, activation)(X)
    expected = [[literal(x, y, orders, decays, activation) for y in X] for x in X]
    torch.testing.assert_close(gram, torch.tensor(expected, dtype=torch.float64))


def test_one_layer_equals_the_string_kernel_and_two_linear_layers_filter_twice():
    X = draw([3, 0, 5])
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
    X = draw([3, 4], scale=0.3)
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
def test_invalid_arguments_are_rejected(options, error, message):
    with pytest.raises(error, match=message):
        DeepStringKernel(**options)
