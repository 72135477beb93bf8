"""Functions of a kernel's space as exact sums over their parts and tokens."""

from __future__ import annotations

import itertools

import pytest
import torch

from representer.explain.sections import sections
from representer.kernels import Gaussian, InversePolynomial, StringKernel

GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(6, 3, generator=GENERATOR, dtype=torch.float64)
REFERENCES = [torch.randn(n, 3, generator=GENERATOR, dtype=torch.float64) for n in (4, 5, 3)]
C = torch.tensor([1.5, -2.0, 0.5], dtype=torch.float64)
ONE, TWO = StringKernel(1, 0.9), StringKernel(2, 0.5, trailing=False)
DIVIDED = [
    ONE, TWO, ONE + TWO, 3.0 * (ONE + 0.5 * TWO), (ONE + TWO.cosine()).cosine(), ONE * TWO,
    TWO**2, StringKernel(2, 0.5, combine="add"), StringKernel(3, 0.5, normalized="exact"),
]  # fmt: skip
WHOLE = [
    StringKernel(2, 0.5, base=Gaussian()),
    TWO.cosine().activated(InversePolynomial()),
    ONE * StringKernel(2, base=Gaussian()),
]


@pytest.mark.parametrize("kernel", [*DIVIDED, *WHOLE], ids=repr)
def test_the_parts_sum_to_the_function(kernel):
    found = sections(kernel, X, REFERENCES, C)
    assert sum(one.value for one in found) == pytest.approx(
        float(kernel([X], REFERENCES)[0] @ C), rel=1e-12
    )


@pytest.mark.parametrize("kernel", DIVIDED, ids=repr)
def test_the_tokens_of_a_part_sum_to_it(kernel):
    for one in sections(kernel, X, REFERENCES, C):
        assert one.by_token is not None
        assert float(one.by_token.sum()) == pytest.approx(one.value, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kernel", WHOLE, ids=repr)
def test_of_other_kernels_only_the_whole_is_a_contribution(kernel):
    (found,) = sections(kernel, X, REFERENCES, C)
    assert found.by_token is None


def test_a_token_has_half_of_each_bigram_that_it_is_in():
    (found,) = sections(TWO, X, REFERENCES, C)
    assert found.by_token is not None
    expected = torch.zeros(len(X), dtype=torch.float64)
    for i, j in itertools.combinations(range(len(X)), 2):
        weight = 0.5 ** (j - i - 1)
        for r, c in zip(REFERENCES, C, strict=True):
            for k, m in itertools.combinations(range(len(r)), 2):
                value = c * weight * 0.5 ** (m - k - 1) * (X[i] @ r[k]) * (X[j] @ r[m])
                expected[i] += value / 2
                expected[j] += value / 2
    torch.testing.assert_close(found.by_token, expected)
