"""Lei et al. (2017), section 2 and appendix B: the string kernel and the layer that evaluates it.

Every unit of the layer is compared with the enumeration of all n-grams.
"""

from __future__ import annotations

import copy
import math
import random
from itertools import product

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from small_oracles import outer
from strings2017_by_hand import (
    CLOSE,
    decays,
    distinct,
    features,
    gaps_only,
    kernel,
    lodhi,
    mass,
    ngrams,
    normalized_kernel,
    one_hot,
    printed,
    sizes,
    theorem,
)
from strings2017_layers import draw, layer_of
from torch.nn.utils.rnn import pack_sequence

from representer.functional.strings import string_features
from representer.kernels import Linear, StringKernel
from representer.nn import StringKernelRNN
from representer.ops import use_backend


@theorem
@given(x=st.text("abc", max_size=6), y=st.text("abc", max_size=5), n=st.integers(1, 3), lam=decays)
def test_1_and_2_one_hot_tokens_count_the_shared_subsequences(x, y, n, lam):
    """K_2 = sum lam_x lam_y delta(x_i, y_k) delta(x_j, y_l) is (3) on one-hot vectors."""
    counted = sum(
        printed(lam)(i, len(x)) * printed(lam)(k, len(y))
        for i in ngrams(len(x), n)
        for k in ngrams(len(y), n)
        if [x[a - 1] for a in i] == [y[b - 1] for b in k]
    )
    one_hots = [one_hot(x).reshape(-1, 3)], [one_hot(y).reshape(-1, 3)]
    for found in (StringKernel(n, lam)(*one_hots), StringKernel(n, lam, base="delta")([x], [y])):
        assert math.isclose(found[0, 0], counted, rel_tol=1e-10, abs_tol=1e-10)
    if len(y) == n and x:  # y as the reference of a unit
        states = layer_of(one_hot(y)[None], decay=lam).cell_states(one_hot(x))
        assert math.isclose(states[-1, -1, 0], counted, rel_tol=1e-10, abs_tol=1e-10)


@theorem
@given(x=st.text("abc", max_size=8), y=st.text("abc", max_size=7), n=st.integers(1, 4), lam=decays)
def test_1_presence_counts_each_distinct_subsequence_once(x, y, n, lam):
    """K = sum_s 1[s in x] 1[s in y] for lambda = 1; else each s with its largest weight."""
    first, second = distinct(x, n, printed(lam)), distinct(y, n, printed(lam))
    expected = sum(weight * second.get(s, 0.0) for s, weight in first.items())
    found = StringKernel(n, lam, base="delta", binary=True)([x, "cab"], [y])[0, 0]
    assert math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-12)
    if lam == 1:
        assert found == len(first.keys() & second.keys())


def test_1_these_numbers_of_distinct_subsequences_were_counted_by_hand():
    cases = [("abab", "baab", 2, 1.0, 4), ("abab", "baab", 2, 0.5, 1.375),
             ("abab", "baab", 3, 1.0, 2), ("aabb", "aabb", 2, 1.0, 3)]  # fmt: skip
    for x, y, n, lam, value in cases:
        assert StringKernel(n, lam, base="delta", binary=True)([x], [y])[0, 0] == value
    assert StringKernel(2, 1.0, base="delta")(["aabb"])[0, 0] == 18  # every occurrence


@theorem
@given(size=sizes, lam=decays)
def test_3_the_kernel_is_an_inner_product_of_sums_of_outer_products(size, lam):
    """K_n(x, y) = <phi_n(x), phi_n(y)>, phi_n(x) = sum lam^(|x| - i_1 - n + 1) x_i1 (x) ... ."""
    x, references = draw(**size)
    y, n = references.flatten(0, 1), size["n"]
    expected = features(x, n, printed(lam)) @ features(y, n, printed(lam))
    linear = StringKernel(n, lam)
    pairs = StringKernel(n, lam, base=Linear())  # by the dynamic program over pairs of tokens
    for found in (kernel(x, y, n, printed(lam)), linear([x], [y])[0, 0], pairs([x], [y])[0, 0]):
        assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)  # sums of 10^4 terms
    phi = string_features(x, n, torch.tensor(lam, dtype=torch.float64))
    torch.testing.assert_close(phi, features(x, n, printed(lam)), **CLOSE)


@theorem
@given(size=sizes, lam=decays)
def test_4_every_state_is_a_sum_over_all_ngrams_of_its_prefix(size, lam):
    """c_n[t] = sum (W1 x_i1 * ... * Wn x_in) lam^(t - i_1 - n + 1), appendix B."""
    x, references = draw(**size)
    states = layer_of(references, decay=lam).cell_states(x)
    for t in range(1, len(x) + 1):
        for j in range(1, size["n"] + 1):
            total = x.new_zeros(size["H"])
            for i in ngrams(t, j):
                joined = x.new_ones(size["H"])
                for slot, place in enumerate(i):
                    joined = joined * (references[:, slot] @ x[place - 1])
                total = total + joined * lam ** (t - i[0] - j + 1)
            torch.testing.assert_close(states[t - 1, j - 1], total, **CLOSE)


@pytest.mark.parametrize("decay", [0.6, "learned", "input", "state"])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_4_in_single_precision_every_state_is_the_kernel(n, decay):
    """The paths for float32: sequences, steps and gradients, against the equations in float64."""
    torch.manual_seed(n)
    layer = StringKernelRNN(5, 33, order=n, decay=decay, activation="tanh")
    double = copy.deepcopy(layer).double()
    x = torch.randn(6, 3, 5)
    near = {"rtol": 1e-4, "atol": 1e-5, "check_dtype": False}
    h, c, expected = torch.zeros(3, 33).double(), torch.zeros(n, 3, 33).double(), []
    gate = double.decay_gate()
    for x_t in x.double():
        lam = gate
        if isinstance(gate, dict):
            a = x_t @ gate["input"].T + gate["bias"]
            lam = torch.sigmoid(a + h @ gate["state"].T if decay == "state" else a)
        before = [torch.ones_like(h), *c[:-1]]
        products = [x_t @ double.references()[:, j].T for j in range(n)]
        c = torch.stack([lam * c[j] + before[j] * products[j] for j in range(n)])
        h = c[-1].tanh()
        expected.append(h)
    expected = torch.stack(expected)
    torch.testing.assert_close(layer(x)[0], expected, **near)
    state, steps = None, []
    with torch.no_grad():
        for x_t in x:
            output, state = layer.step(x_t, state)
            steps.append(output)
    torch.testing.assert_close(torch.stack(steps), expected, **near)
    weights = torch.randn(6, 3, 33)
    (layer(x)[0] * weights).sum().backward()
    with use_backend("reference"):
        (double(x.double())[0] * weights).sum().backward()
    for found, wanted in zip(layer.parameters(), double.parameters(), strict=True):
        scale = float(wanted.grad.abs().max())
        torch.testing.assert_close(found.grad / scale, wanted.grad / scale, **near)


@theorem
@given(size=sizes, lam=decays)
@example(size={"T": 8, "d": 2, "n": 6, "H": 2, "seed": 1}, lam=0.7)
def test_theorem_1_every_state_is_the_kernel_of_the_prefix_and_the_reference(size, lam):
    """c_j[t][i] = K_j(x_{1:t}, w_{i,j}) for every t, j and i; 0 while t < j.

    The reference's only j-gram starts at its first token, and so weighs lam^0 = 1.
    """
    x, references = draw(**size)
    states = layer_of(references, decay=lam).cell_states(x)
    for t in range(1, len(x) + 1):
        for j in range(1, size["n"] + 1):
            for i, reference in enumerate(references):
                expected = kernel(x[:t], reference[:j], j, printed(lam))
                assert math.isclose(states[t - 1, j - 1, i], expected, rel_tol=1e-10, abs_tol=1e-10)
                assert t >= j or not states[t - 1, j - 1, i]


@theorem
@given(size=sizes, lam=decays)
def test_theorem_1_the_output_is_the_activation_of_the_last_kernel(size, lam):
    """h[t] = sigma(c_n[t]) of (4), and c_0 is 1, c_j[0] is 0."""
    x, references = draw(**size)
    for name in ("tanh", "relu", "sigmoid"):
        output, state = layer_of(references, decay=lam, activation=name)(x)
        values = [[kernel(x[: t + 1], w, size["n"], printed(lam)) for w in references]
                  for t in range(len(x))]  # fmt: skip
        expected = getattr(torch, name)(torch.tensor(values, dtype=torch.float64))
        torch.testing.assert_close(output, expected, **CLOSE)
        torch.testing.assert_close(state.h[0], expected[-1], **CLOSE)


@theorem
@given(size=sizes, lam=st.floats(0.05, 0.95))
def test_appendix_b_the_ngrams_that_end_at_t_carry_the_weight_of_the_shorter_ones_before(size, lam):
    """With i_n = t the exponent t - i_1 - n + 1 is that of an (n-1)-gram at t - 1.

    Printed is t - 1 - i_1 - n + 1, which is smaller by a factor 1/lam.
    """
    x, references = draw(**size)
    n, w, t = size["n"], references[0], size["T"]
    if n == 1:
        return
    ending = sum(
        float(outer([x[a - 1] for a in i]) @ outer(list(w))) * lam ** (t - i[0] - n + 1)
        for i in ngrams(t, n)
        if i[-1] == t
    )
    states = layer_of(references, decay=lam).cell_states(x)[:, :, 0]
    before = states[t - 2] if t > 1 else x.new_zeros(n)
    assert math.isclose(before[n - 2] * (w[n - 1] @ x[-1]), ending, rel_tol=1e-10, abs_tol=1e-10)
    assert math.isclose(
        states[-1, n - 1], lam * before[n - 1] + ending, rel_tol=1e-10, abs_tol=1e-10
    )


# lambda = 1/2; by hand: K_n, additive, K_n / Z, additive / Z, gaps only, Lodhi
BY_HAND = [
    ("abc", "abc", 1, 21 / 16, 21 / 16, 3 / 7, 3 / 7, 3, 3 / 4),
    ("abc", "abc", 2, 3 / 2, 9 / 2, 3 / 8, 9 / 8, 9 / 4, 9 / 64),
    ("abc", "abc", 3, 1, 3, 1, 3, 1, 1 / 64),
    ("abab", "ab", 1, 25 / 16, 25 / 16, 5 / 9, 5 / 9, 4, 1),
    ("abab", "ab", 2, 3 / 2, 15 / 4, 6 / 11, 15 / 11, 9 / 4, 9 / 64),
    ("abab", "ab", 3, 0, 0, 0, 0, 0, 0),
    ("aba", "bab", 1, 5 / 4, 5 / 4, 20 / 49, 20 / 49, 4, 1),
    ("aba", "bab", 2, 1, 7 / 2, 1 / 4, 7 / 8, 2, 1 / 8),
    ("abca", "aca", 1, 53 / 32, 53 / 32, 53 / 105, 53 / 105, 5, 5 / 4),
    ("abca", "aca", 2, 5 / 4, 19 / 4, 5 / 22, 19 / 22, 13 / 8, 13 / 128),
    ("abca", "aca", 3, 1 / 2, 5, 1 / 5, 2, 1 / 2, 1 / 128),
    ("V1", "V2", 1, 1 / 2, 1 / 2, 4 / 21, 4 / 21, 4, 1),
    ("V1", "V2", 2, 1, 5 / 2, 1 / 2, 5 / 4, 2, 1 / 8),
]
VECTORS = {"V1": [[1.0, 2], [0, 1], [-1, 1]], "V2": [[2.0, 0], [1, 1]]}


@pytest.mark.parametrize("row", BY_HAND, ids=lambda row: f"{row[0]}·{row[1]} {row[2]}")
def test_3_these_values_were_computed_by_hand(row):
    """The enumeration that all else is compared with, and the layer, give the values on paper."""
    first, second, n, multiplied, added, by_mass, added_by_mass, gaps, span = row
    x, y = (torch.tensor(VECTORS[s]).double() if s in VECTORS else one_hot(s)
            for s in (first, second))  # fmt: skip
    half = printed(0.5)
    assert kernel(x, y, n, half) == multiplied
    by_library = {
        multiplied: {}, added: {"combine": "add"}, by_mass: {"normalized": "exact"},
        added_by_mass: {"combine": "add", "normalized": "exact"}, gaps: {"trailing": False},
    }  # fmt: skip
    for value, options in by_library.items():
        found = StringKernel(n, 0.5, **options)([x], [y])[0, 0]
        assert math.isclose(found, value, rel_tol=1e-14, abs_tol=1e-15)
    assert kernel(x, y, n, half, add=True) == added
    assert math.isclose(normalized_kernel(x, y, n, half), by_mass, abs_tol=1e-15)
    assert math.isclose(normalized_kernel(x, y, n, half, add=True), added_by_mass, abs_tol=1e-15)
    assert kernel(x, y, n, gaps_only(0.5)) == gaps
    assert kernel(x, y, n, lodhi(0.5)) == span
    if len(y) == n:  # y as the reference of a unit
        exact = {"combine": "add_exact"}
        for options, value in [({}, multiplied), (exact, added),
                               ({"normalized": "exact"}, by_mass),
                               ({"normalized": "exact", **exact}, added_by_mass)]:  # fmt: skip
            found = layer_of(y[None], **options).cell_states(x)[-1, -1, 0]
            assert math.isclose(found, value, abs_tol=1e-15)


def test_theorem_1_the_states_of_abab_against_ab_were_computed_by_hand():
    """(c_1, c_2)[t] = (1, 0), (1/2, 1), (5/4, 1/2), (5/8, 3/2) for lambda = 1/2."""
    states = layer_of(one_hot("ab")[None]).cell_states(one_hot("abab"))[:, :, 0]
    assert states.tolist() == [[1, 0], [1 / 2, 1], [5 / 4, 1 / 2], [5 / 8, 3 / 2]]


def test_table_5_these_masses_were_computed_by_hand():
    """m_n(L) for lambda = 1/2: the weights of all n-grams, summed."""
    by_hand = [[1, 3 / 2, 7 / 4, 15 / 8, 31 / 16, 63 / 32],
               [0, 1, 2, 11 / 4, 13 / 4, 57 / 16],
               [0, 0, 1, 5 / 2, 4, 21 / 4]]  # fmt: skip
    layer = layer_of(one_hot("abc")[None], normalized="exact")
    for n, row in enumerate(by_hand):
        for length, value in enumerate(row, start=1):
            assert mass(length, n + 1, printed(0.5)) == value
            _, state = layer(one_hot("a" * length))
            assert state.m[0, n, 0] == value


def test_theorem_1_holds_in_a_thousand_generated_cases():
    """The network's state, its exact kernel and the enumeration agree to 1e-10.

    A case is one sequence and one reference, both generated, under a generated form of kernel.
    """
    generator, cases = random.Random(0), 0
    forms = product((1, 2, 3, 4), ("multiply", "add"), (False, True, "exact"))
    for seed, (n, combine, normalized) in enumerate(forms):
        lam, d = generator.choice([0.0, 1.0, *[generator.random()] * 6]), generator.randint(1, 3)
        lam = min(lam, 0.99) if normalized is True else lam  # with 1, every term would be 0
        _, references = draw(0, d, n, 6, seed)
        lengths = [generator.randint(1, 7) for _ in range(8)]
        sequences = [draw(T, d, 1, 1, 100 * seed + b)[0] for b, T in enumerate(lengths)]
        form = StringKernel(n, lam, combine=combine, normalized=normalized)
        layer = form.network(d, 6, dtype=torch.float64).requires_grad_(False)
        layer.references().copy_(references)
        _, state = layer(pack_sequence(sequences, enforce_sorted=False))
        exact = layer.kernel(sequences, list(references))
        torch.testing.assert_close(state.h[0], exact, **CLOSE)
        of_pair = normalized_kernel if normalized == "exact" else kernel
        share = (1 - lam) ** n if normalized is True else 1.0
        for b, x in enumerate(sequences):
            for i, w in enumerate(references):
                value = share * of_pair(x, w, n, printed(lam), add=combine == "add")
                assert math.isclose(state.h[0, b, i], value, rel_tol=1e-10, abs_tol=1e-10)
                cases += 1
    assert cases >= 1000
