"""Chains of the string kernel, their scan, kernel and features."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from looped import looped
from ops.samples.string_scan import CHAINS, tensors
from representer.functional import (
    NONLINEARITIES,
    StringChain,
    string_kernel,
    string_kernel_definition,
    string_scan,
)
from representer.functional.strings import (
    Combine,
    Decay,
    Normalized,
    Readout,
    slot_features,
    string_features,
)

# String-kernel cells as data: their products and their code.


ANY_CHAIN = st.builds(
    StringChain, st.integers(1, 12), st.sampled_from(get_args(Combine)),
    st.sampled_from(get_args(Normalized)), st.sampled_from(get_args(Readout)),
    st.sampled_from(get_args(Decay)), st.booleans(), st.sampled_from(list(NONLINEARITIES)),
)  # fmt: skip


@given(ANY_CHAIN)
def test_parsing_the_code_of_a_chain_returns_the_chain(chain: StringChain):
    assert StringChain.parse(chain.code) == chain


@given(ANY_CHAIN, ANY_CHAIN)
def test_different_chains_have_different_codes(one: StringChain, other: StringChain):
    assert (one == other) == (one.code == other.code)


@pytest.mark.parametrize("code", ["1 times no last given 0 tanh", "1 add no last given 0", "x"])
def test_invalid_codes_are_rejected(code: str):
    with pytest.raises((AssertionError, ValueError)):
        StringChain.parse(code)


@given(ANY_CHAIN)
def test_there_is_one_product_per_token_and_gate(chain: StringChain):
    gates = (chain.decay != "given") + chain.highway
    assert len(chain.products) == chain.order + gates
    assert chain.products[: chain.order] == tuple(f"token{j + 1}" for j in range(chain.order))
    assert chain.products[chain.order :] == tuple(
        name for name, there in (("decay", chain.is_gated), ("highway", chain.highway)) if there
    )


@given(ANY_CHAIN)
def test_the_state_includes_masses_where_the_recurrence_needs_them(chain: StringChain):
    needs_mass = chain.combine == "add_exact" or chain.normalized == "exact"
    assert chain.states == (2 if needs_mass else 1) * chain.order
    assert chain.is_state_gated == (chain.decay == "state_gate")


# The string recurrence: values computed by hand, its gradient, streaming and padding.


A, B = (1.0, 0.0), (0.0, 1.0)
EVERY_CHAIN = pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)


def run(chain: StringChain, tokens: list[tuple], references: list[tuple], lam: float = 0.5):
    """Return the outputs of a unit with the given reference, from a zero state."""
    products = torch.tensor(tokens, dtype=torch.float64) @ torch.tensor(references).double().T
    z = products[:, None, :, None]
    state = z.new_zeros(1, 1), z.new_zeros(1, chain.states, 1)
    outputs, _, c = string_scan(z, *state, chain=chain, decay=z.new_tensor(lam))
    return outputs.flatten().tolist(), c


@pytest.mark.parametrize(("options", "expected"), [
    ({}, [0, 1, 1 / 2, 3 / 2]),
    ({"combine": "add"}, [0, 2, 3 / 2, 3]),
    ({"combine": "add_exact"}, [0, 2, 3 / 2, 15 / 4]),
    ({"normalized": "paper"}, [0, 1 / 4, 1 / 8, 3 / 8]),
    ({"normalized": "exact"}, [0, 1, 1 / 4, 6 / 11]),
    ({"readout": "sum"}, [1, 3 / 2, 7 / 4, 17 / 8]),
    ({"combine": "add_exact", "normalized": "exact"}, [0, 2, 3 / 4, 15 / 11]),
])  # fmt: skip
def test_abab_by_hand(options: dict[str, Any], expected: list[float]):
    """x = abab, references (a, b), lambda = 1/2; masses m_2 = 0, 1, 2, 11/4."""
    chain = replace(StringChain(2), **options)
    assert run(chain, [A, B, A, B], [A, B])[0] == pytest.approx(expected, abs=1e-14)


def test_state_gates_and_highway_use_the_masked_state():
    """One step from h = (1, 2) with k = (2, 0); the gates' products with x are 0, the others 1."""
    chain = CHAINS["second_seen"]
    z = torch.tensor([[[1.0, 1.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]], dtype=torch.float64)
    h0, mask = z.new_tensor([[1, 2]]), z.new_tensor([[2, 0]])
    c0, carry = z.new_tensor([[[0, 0], [4, 4]]]), z.new_tensor([[[10, 10]]])
    weight = z.new_tensor([[0, 0], [1, 0]])  # unit 1 depends on unit 0 only
    more = {"chain": chain, "weight": weight, "mask": mask, "carry": carry}
    _, h, c = string_scan(z[None], h0, c0, **more)
    lam = torch.sigmoid(z.new_tensor([0, 2]))
    torch.testing.assert_close(c[0, 1], 4 * lam)  # c_1 was 0, so no bigram ends here
    torch.testing.assert_close(c[0, 0], 1 - lam)
    torch.testing.assert_close(h[0], 0.5 * mask[0] * torch.tanh(4 * lam) + 0.5 * 10)


@EVERY_CHAIN
@looped("cut", [1, 3])
def test_a_sequence_in_parts_matches_the_whole_sequence(chain: StringChain, cut: int):
    given = tensors(chain, (7, 2, 3), "mask", torch.float64)
    whole = string_scan(given["x"], chain=chain, **{n: t for n, t in given.items() if n != "x"})
    parts, state = [], (given["h0"], given["c0"])
    for start in range(0, 7, cut):
        more = {n: given[n] for n in ("decay", "weight", "mask") if n in given}
        if "carry" in given:
            more["carry"] = given["carry"][start : start + cut]
        part, *state = string_scan(given["x"][start : start + cut], *state, chain=chain, **more)
        parts.append(part)
    torch.testing.assert_close((torch.cat(parts), *state), whole, rtol=1e-12, atol=1e-12)


@EVERY_CHAIN
@looped("reverse", [False, True])
def test_beyond_its_length_a_sequence_has_zero_outputs_and_keeps_its_state(
    chain: StringChain, reverse: bool
):
    given = tensors(chain, (5, 4, 3), "mask", torch.float64)
    lengths = torch.tensor([5, 2, 1, 0])
    x, h0, c0 = (given.pop(name) for name in ("x", "h0", "c0"))
    output, h, c = string_scan(x, h0, c0, chain=chain, lengths=lengths, reverse=reverse, **given)
    for b, length in enumerate(lengths.tolist()):
        assert not output[length:, b].any()
        if not length:
            assert torch.equal(h[b], h0[b])
            assert torch.equal(c[b], c0[b])
            continue
        own = {n: t for n, t in given.items() if n in ("decay", "weight")}
        own |= {n: given[n][b : b + 1] for n in ("mask",)}
        if "carry" in given:
            own["carry"] = given["carry"][:length, b : b + 1]
        start = x[:length, b : b + 1], h0[b : b + 1], c0[b : b + 1]
        alone = string_scan(*start, chain=chain, reverse=reverse, **own)
        found = output[:length, b : b + 1], h[b : b + 1], c[b : b + 1]
        torch.testing.assert_close(found, alone)


@EVERY_CHAIN
def test_reverse_scans_the_reversed_sequence(chain: StringChain):
    given = tensors(chain, (5, 2, 3), "", torch.float64)
    backwards = {n: t.flip(0) if n in ("x", "carry") else t for n, t in given.items()}
    results = []
    for operands, reverse in ((given, True), (backwards, False)):
        more = {n: t for n, t in operands.items() if n != "x"}
        results.append(string_scan(operands["x"], chain=chain, reverse=reverse, **more))
    (output, *final), (flipped, *last) = results
    torch.testing.assert_close((output.flip(0), *final), (flipped, *last))


claim = settings(deadline=None, max_examples=6)
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
    assert torch.autograd.gradcheck(k, (S, decay), fast_mode=True)
    at = torch.tensor(lam, dtype=torch.float64, requires_grad=True)
    k(S, at)[-1, -1].backward()
    assert at.grad is not None
    assert at.grad.isfinite()


def draw(length, d=2):
    return torch.randn(length, d, dtype=torch.float64)


@pytest.mark.parametrize("trailing", [True, False])
@looped("n", [1, 2, 3, 4])
@looped("lam", [0.0, 0.6, 1.0])
def test_inner_products_of_features_equal_the_kernel(n, lam, trailing):
    decay = torch.tensor(lam, dtype=torch.float64)
    for L in (0, 2, 5):
        x, y = draw(L), draw(4)
        for features, combine in ((string_features, "multiply"), (slot_features, "add")):
            a, b = (features(s, n, decay, trailing=trailing) for s in (x, y))
            exact = string_kernel_definition(x @ y.T, n, lam, combine=combine, trailing=trailing)
            torch.testing.assert_close(a @ b, exact, rtol=1e-11, atol=1e-11)


def test_the_features_of_two_tokens_are_their_outer_product():
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.float64)
    decay = torch.tensor(0.5, dtype=torch.float64)
    assert string_features(x, 2, decay).tolist() == [3, 5, 6, 10]
    assert slot_features(x, 2, decay).tolist() == [1, 2, 3, 5]
