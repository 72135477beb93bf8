"""Which n-grams and tokens a string network used."""

from __future__ import annotations

import pytest
import torch
from explain_by_hand import enumerate_ngrams, normal, random_decays
from hypothesis import given, settings
from hypothesis import strategies as st
from string_layers import (
    EXACT,
    KIND,
    KINDS,
    PRODUCT,
    SIZES,
    all_forms,
    enumerate_layer_ngrams,
    sequence,
    string_layer,
)
from torch.testing import assert_close

from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain import influence, substitutions, token_slots
from representer.explain.ngrams import best_ngrams
from representer.explain.string_readout import string_readout
from representer.nn import RAN, StringKernelRNN


def suffix_weights(decay, read):
    """Return the weight of c_n[t]: read_t + lam_{t+1} tail[t+1]."""
    tail = read.clone()
    for t in range(len(tail) - 2, -1, -1):
        tail[t] += decay[t + 1] * tail[t + 1]
    return tail


def check_largest(p, decay, read, k):
    """Check the k n-grams against the k largest of an enumeration."""
    w = torch.ones_like(decay)
    ngrams = enumerate_ngrams(p, decay, w, read)
    result = best_ngrams(p.tolist(), decay.tolist(), suffix_weights(decay, read).tolist(), k)
    assert len({term.positions for term in result}) == len(result) == min(k, len(ngrams))
    for positions, contribution in result:
        assert contribution == pytest.approx(ngrams[positions], rel=1e-12, abs=1e-300)
    largest = sorted(map(abs, ngrams.values()), reverse=True)[:k]
    assert [abs(term.contribution) for term in result] == pytest.approx(largest, rel=1e-12)


CASES = {
    "time": st.integers(1, 9), "order": st.integers(1, 4), "k": st.integers(1, 40),
    "seed": st.integers(0, 2**16),
}  # fmt: skip


@settings(deadline=None, max_examples=20)
@given(**CASES)
def test_the_best_match_an_enumeration_for_gates_and_any_readout(time, order, k, seed):
    p = normal(time, order, seed=seed)
    p[normal(time, order, seed=seed + 1) > 1] = 0
    decay = random_decays(time, 1, seed)[:, 0]
    check_largest(p, decay, normal(time, seed=seed + 2), k)


def test_a_sequence_shorter_than_the_order_has_no_ngrams():
    assert best_ngrams([[1.0, 1.0, 1.0]] * 2, [0.5] * 2, [1.0] * 2, 5) == []
    assert best_ngrams([], [], [], 5) == []


def test_ties_are_ordered_by_the_last_position():
    result = best_ngrams([[1.0]] * 5, [1.0] * 5, [1.0] * 5, 3)
    assert [term.positions for term in result] == [(4,), (3,), (2,)]


def test_a_zero_contribution_is_not_negative_zero():
    (result,) = best_ngrams([[-1.0]], [0.5], [0.0], 1)
    assert str(result.contribution) == "0.0"


def test_two_negative_factors_make_a_large_positive_contribution():
    """Partial products are ranked by absolute value."""
    rows = [[-9.0, 0.1], [1.0, 0.1], [0.1, -9.0]]
    best = best_ngrams(rows, [1.0] * 3, [1.0] * 3, 2)
    assert best == [((0, 2), 81.0), ((1, 2), -9.0)]


@settings(deadline=None, max_examples=20)
@all_forms(time=6, order=3, seed=0)
@given(kind=KIND, **SIZES)
def test_the_contributions_sum_to_the_state(kind, time, order, seed):
    """For products, in every slot; for sums, over all slots together."""
    layer, x = string_layer(kind, order, seed), sequence(time, seed)
    states = layer.cell_states(x)[-1].detach()
    for read in range(1, order + 1):
        contributions = token_slots(layer, x, order=read)
        assert contributions.shape == (time, read, 3)
        total, size = contributions.sum(0), contributions.abs().sum((0, 1)).max().item()
        total = total if kind[0] == "multiply" else total.sum(0, keepdim=True)
        state = states[read - 1].expand_as(total)
        assert_close(total, state, rtol=1e-10, atol=1e-12 * size)


@settings(deadline=None, max_examples=12)
@given(kind=PRODUCT, **SIZES)
def test_a_contribution_is_the_sum_over_ngrams_with_the_token_in_that_slot(kind, time, order, seed):
    layer, x = string_layer(kind, order, seed), sequence(time, seed)
    expected = torch.zeros(time, order, dtype=torch.float64)
    for positions, contribution in enumerate_layer_ngrams(layer, x, 2, order).items():
        for j, t in enumerate(positions):
            expected[t, j] += contribution
    assert_close(token_slots(layer, x, 2), expected, **EXACT)


@pytest.mark.parametrize("kind", KINDS[::5])
def test_one_unit_is_a_slice_of_the_result_for_all(kind):
    layer, x = string_layer(kind, 3, 1), sequence(7, 1)
    for unit in range(3):
        assert_close(token_slots(layer, x, unit, 2), token_slots(layer, x, order=2)[..., unit])


@pytest.mark.parametrize("combine", ["add", "add_exact"])
def test_contributions_to_a_sum_are_token_times_gradient(combine):
    """The state is linear in each token of each slot."""
    layer, x = string_layer((combine, True, 0.6), 3, 4), sequence(6, 4)
    (gradient,) = torch.autograd.grad(layer.cell_states(x)[-1, -1, 0], layer.weight_ih_l0)
    products = (gradient * layer.weight_ih_l0).detach().sum(-1)
    per_slot = products.unflatten(0, (-1, layer.hidden_size))[:, 0]
    assert_close(token_slots(layer, x, 0).sum(0), per_slot, **EXACT)


def test_contributions_have_the_dtype_of_the_input_and_are_detached():
    contributions = token_slots(StringKernelRNN(3, 4), torch.randn(5, 3, requires_grad=True))
    assert (contributions.dtype, contributions.requires_grad) == (torch.float32, False)


def test_invalid_arguments_are_rejected():
    with pytest.raises(KindError, match="layer is RAN"):
        token_slots(RAN(3, 3), torch.zeros(5, 3))
    with pytest.raises(ArgumentError, match="unit is 3"):
        token_slots(StringKernelRNN(3, 3), torch.zeros(5, 3), 3)
    with pytest.raises(ArgumentError, match="order is 3"):
        token_slots(StringKernelRNN(3, 3), torch.zeros(5, 3), order=3)


def substituted_states(layer, x, unit, words, order):
    """Return the state after every substitution ``(T, V)`` by running the layer on all of them."""
    time = len(x)
    changed = x[:, None, None].repeat(1, time, len(words), 1)
    for t in range(time):
        changed[t, t] = words
    return layer.cell_states(changed.flatten(1, 2))[-1, :, order - 1, unit].detach().view(time, -1)


@settings(deadline=None, max_examples=15)
@all_forms(time=6, order=3, seed=0)
@given(kind=st.sampled_from([kind for kind in KINDS if kind[2] != "state"]), **SIZES)
def test_the_table_matches_running_the_layer_on_substituted_sequences(kind, time, order, seed):
    """Gates that depend on x use the new token."""
    layer, x = string_layer(kind, order, seed), sequence(time, seed)
    words = sequence(4, seed + 7)
    words[0] = 0  # a missing token
    for read in {1, order}:
        expected = substituted_states(layer, x, 1, words, read)
        assert_close(substitutions(layer, x, 1, words, order=read), expected, **EXACT)


def test_substituting_a_token_by_itself_changes_nothing():
    layer, x = string_layer(("multiply", False, "input"), 3, 0, bias=False), sequence(6, 0)
    state = layer.cell_states(x)[-1, -1, 2].detach()
    assert_close(substitutions(layer, x, 2, x).diagonal(), state.expand(6), **EXACT)


@pytest.mark.parametrize(("wrong", "error", "message"), [
    ({"layer": StringKernelRNN(3, 3, decay="state")}, KindError, "changes all later gates"),
    ({"vocabulary": torch.zeros(7, 4)}, ShapeError, r"vocabulary has shape \(7, 4\)"),
    ({"vocabulary": torch.zeros(3)}, ShapeError, r"expected \(words, 3\)"),
    ({"vocabulary": [[0.0] * 3]}, KindError, "vocabulary is list"),
    ({"vocabulary": torch.zeros(7, 3).double()}, KindError, "device of the input"),
    ({"vocabulary": torch.full((7, 3), torch.inf)}, ArgumentError, r"vocabulary\[0\]"),
    ({"positions": [5]}, ArgumentError, "position is 5; expected an integer from 0 to 4"),
    ({"unit": 3}, ArgumentError, "unit is 3"),
    ({"order": 3}, ArgumentError, "order is 3"),
])  # fmt: skip
def test_invalid_arguments_of_substitutions_are_rejected(wrong, error, message):
    valid = {
        "layer": StringKernelRNN(3, 3, decay=0.5), "input": torch.zeros(5, 3), "unit": 0,
        "vocabulary": torch.zeros(7, 3),
    }  # fmt: skip
    with pytest.raises(error, match=message):
        substitutions(**(valid | wrong))


OPTIONS = {
    "activation": st.sampled_from([None, "tanh", "relu"]),
    "readout": st.sampled_from(["last", "sum"]),
    "highway": st.booleans(),
}


@settings(deadline=None, max_examples=12)
@all_forms(time=6, order=3, seed=0, activation="tanh", readout="sum", highway=True)
@given(kind=KIND, **SIZES, **OPTIONS)
def test_token_contributions_sum_to_the_readout(kind, time, order, seed, **options):
    layer, x = string_layer(kind, order, seed, **options), sequence(time, seed)
    v = normal(time, 3, seed=seed + 3)
    contributions = string_readout(layer, x, v).steps()
    expected = (v * layer(x)[0].detach()).sum(0)
    assert_close(
        contributions.sum(0), expected, rtol=1e-10,
        atol=1e-12 * (1 + contributions.abs().sum().item()),
    )  # fmt: skip


@settings(deadline=None, max_examples=8)
@given(kind=PRODUCT, **SIZES, **OPTIONS)
def test_ngram_and_highway_contributions_sum_to_the_readout(kind, time, order, seed, **options):
    """Sum over the n-grams of all units."""
    layer, x = string_layer(kind, order, seed, **options), sequence(time, seed)
    v = normal(time, 3, seed=seed + 3)
    readout = string_readout(layer, x, v)
    contributions = [term.contribution for unit in range(3) for term in readout.ngrams(unit, 10**6)]
    y = (v * layer(x)[0].detach()).sum().item()
    size = 1e-12 * (1 + sum(map(abs, contributions)))
    assert sum(contributions) + readout.highway_contribution.sum().item() == pytest.approx(
        y, rel=1e-10, abs=size
    )


@settings(deadline=None, max_examples=8)
@given(kind=PRODUCT, **SIZES)
def test_ngram_contributions_are_divided_equally_among_tokens(kind, time, order, seed):
    layer, x = string_layer(kind, order, seed, activation=None), sequence(time, seed)
    expected = torch.zeros(time, dtype=torch.float64)
    for positions, contribution in enumerate_layer_ngrams(layer, x, 0, order).items():
        for t in positions:
            expected[t] += contribution / order
    assert_close(influence(layer, x)[:, 0], expected, rtol=1e-10, atol=1e-13)


def test_ngrams_of_several_lengths_are_sorted_together():
    layer = string_layer(("multiply", False, 0.5), 3, 0, readout="sum", activation="relu")
    x, v = sequence(6, 0), normal(6, 3, seed=1)
    readout = string_readout(layer, x, v)
    all_ngrams, few = readout.ngrams(0, 1000), readout.ngrams(0, 7)
    sizes = [abs(term.contribution) for term in all_ngrams]
    assert few == all_ngrams[:7]
    assert sizes == sorted(sizes, reverse=True)
    assert {len(term.positions) for term in all_ngrams} == {1, 2, 3}


def test_influence_sums_to_the_last_output_in_the_dtype_of_the_input():
    layer, x = StringKernelRNN(3, 4), torch.randn(5, 3, requires_grad=True)
    contributions = influence(layer, x)
    assert (contributions.dtype, contributions.requires_grad) == (torch.float32, False)
    assert_close(contributions.sum(0), layer(x)[0][-1].detach())


V = torch.zeros(5, 3)
INVALID = {
    "sigmoid": (StringKernelRNN(3, 3, activation="sigmoid"), V, KindError, "is not 0 at 0"),
    "layers": (StringKernelRNN(3, 3, 2), V, KindError, "several layers: use stack_"),
    "directions": (
        StringKernelRNN(3, 3, bidirectional=True), V, KindError, "two directions: use stack_",
    ),
    "kind": (StringKernelRNN(3, 3), [1.0], KindError, r"weights is list; expected a tensor \(5, 3"),
    "shape": (StringKernelRNN(3, 3), V[0], ShapeError, r"weights has shape \(3,\)"),
    "NaN": (StringKernelRNN(3, 3), V / 0, ArgumentError, r"weights\[0\] is"),
}  # fmt: skip


@pytest.mark.parametrize(("layer", "weights", "error", "message"), INVALID.values(), ids=INVALID)
def test_unsupported_layers_and_weights_are_rejected(layer, weights, error, message):
    with pytest.raises(error, match=message):
        string_readout(layer, torch.zeros(5, 3), weights)


def test_ngrams_of_a_layer_that_adds_tokens_are_rejected():
    readout = string_readout(StringKernelRNN(3, 3, combine="add"), torch.zeros(5, 3), V)
    with pytest.raises(KindError, match="use token_slots"):
        readout.ngrams(0, 1)
    with pytest.raises(ArgumentError, match="unit is 3"):
        string_readout(StringKernelRNN(3, 3), torch.zeros(5, 3), V).ngrams(3, 1)


def test_contributions_are_kept_where_the_input_of_tanh_is_zero():
    """tanh(s)/s is 1 at s = 0."""
    layer = StringKernelRNN(1, 1, order=1, decay=1.0, activation="tanh").double()
    with torch.no_grad():
        layer.references()[:] = 1.0
    x = torch.tensor([[2.0], [-2.0]], dtype=torch.float64)
    last = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    assert string_readout(layer, x, last).steps().flatten().tolist() == [2.0, -2.0]
