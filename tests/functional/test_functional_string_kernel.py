from __future__ import annotations

from itertools import combinations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from looped import looped
from representer.functional import string_kernel, string_kernel_definition
from representer.functional.strings import ngram_mass, slot_weights

claim = settings(deadline=None, max_examples=10)
VARIANTS = list(product(["multiply", "add"], [False, True, "exact"], [True, False]))
sizes = st.integers(0, 7)
orders, decays = st.integers(1, 4), st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))
tokens = torch.randn(6, 5, dtype=torch.float64)


@pytest.mark.parametrize(("combine", "normalized", "trailing"), VARIANTS)
@claim
@given(L=sizes, M=sizes, n=orders, lam=decays, seed=st.integers(0, 2**16))
def test_the_dynamic_program_matches_the_definition_for_prefixes_and_lengths(
    combine, normalized, trailing, L, M, n, lam, seed
):
    options = {"combine": combine, "normalized": normalized, "trailing": trailing}
    generator = torch.Generator().manual_seed(seed)
    S = torch.randn(L, M, dtype=torch.float64, generator=generator)
    exact = string_kernel_definition(S, n, lam, **options)
    padded = torch.full((L + 2, M + 1), 7.0, dtype=torch.float64)
    padded[:L, :M] = S
    lengths = torch.tensor([L]), torch.tensor([M])
    fast = string_kernel(padded[None], n, lam, lengths=lengths, **options)
    torch.testing.assert_close(fast[0], exact, rtol=1e-11, atol=1e-11)
    if L and M:
        prefixes = string_kernel(S, n, lam, **options)
        half = string_kernel_definition(S[: L // 2 + 1, :M], n, lam, **options)
        torch.testing.assert_close(prefixes[-1, -1], exact, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(prefixes[L // 2, -1], half, rtol=1e-11, atol=1e-11)


def test_the_definition_by_hand():
    """Two tokens each: one 2-gram, and 1-grams of which the older ones decay."""
    S = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    assert string_kernel_definition(S, 2, 0.5) == 1 * 5
    assert string_kernel_definition(S, 2, 0.5, combine="add") == 1 + 5
    assert string_kernel_definition(S, 1, 0.5) == 0.25 * 1 + 0.5 * 2 + 0.5 * 3 + 5
    assert string_kernel_definition(S, 1, 0.5, trailing=False) == 11
    assert string_kernel_definition(S, 1, 0.5, normalized=True) == 0.5 * 7.75
    assert string_kernel_definition(S, 1, 0.5, normalized="exact") == 7.75 / 1.5**2
    assert string_kernel_definition(S, 3, 0.5, normalized="exact") == 0


def test_gaps_and_trailing_tokens_decay_by_one_factor_each():
    """The only n-gram with a similarity is (1, 3) of 4 tokens: one gap, one trailing."""
    S = torch.zeros(4, 2, dtype=torch.float64)
    S[0, 0] = S[2, 1] = 1
    assert string_kernel_definition(S, 2, 0.5) == 0.5**2
    assert string_kernel_definition(S, 2, 0.5, trailing=False) == 0.5


def test_the_masses_match_the_derivation():
    """Section 4.1 by hand, lambda = 1/2, lengths 0 to 6."""
    lam = torch.tensor(0.5, dtype=torch.float64)
    by_hand = {
        1: [0, 1, 3 / 2, 7 / 4, 15 / 8, 31 / 16, 63 / 32],
        2: [0, 0, 1, 2, 11 / 4, 13 / 4, 57 / 16],
        3: [0, 0, 0, 1, 5 / 2, 4, 21 / 4],
    }
    for n, masses in by_hand.items():
        assert ngram_mass(n, 6, lam).tolist() == masses
    assert ngram_mass(0, 2, lam).tolist() == [1, 1, 1]


@pytest.mark.parametrize("trailing", [True, False])
def test_a_slot_weight_sums_all_n_grams_with_the_token_in_that_slot(trailing):
    lam = torch.tensor(0.7, dtype=torch.float64)
    weights = slot_weights(3, 6, lam, trailing)
    for s, p, j in product(range(6), range(6), range(3)):
        ngrams = [i for i in combinations(range(s + 1), 3) if i[j] == p]
        expected = sum(0.7 ** ((s if trailing else i[-1]) - i[0] - 2) for i in ngrams)
        assert weights[j, s, p].item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("combine", "normalized", "trailing"), VARIANTS)
@looped("lam", [0.0, 0.6, 1.0])
def test_gradients_by_similarities_and_lambda_match_numerical_ones(
    combine, normalized, trailing, lam
):
    def k(S, lam):
        return string_kernel(S, 3, lam, combine=combine, normalized=normalized, trailing=trailing)

    S = tokens[:4, :5].clone().requires_grad_()
    inside = min(max(lam, 1e-2), 1 - 1e-2)  # central differences need room on both sides
    decay = torch.tensor(inside, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(k, (S, decay))
    at = torch.tensor(lam, dtype=torch.float64, requires_grad=True)
    k(S, at)[-1, -1].backward()
    assert at.grad is not None
    assert at.grad.isfinite()
