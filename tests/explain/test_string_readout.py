from __future__ import annotations

import pytest
import torch
from explain_by_hand import normal
from hypothesis import given, settings
from hypothesis import strategies as st
from string_layers import (
    KIND,
    PRODUCT,
    SIZES,
    all_forms,
    enumerate_layer_ngrams,
    sequence,
    string_layer,
)
from torch.testing import assert_close

from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain import influence
from representer.explain.string_readout import string_readout
from representer.nn import StringKernelRNN

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
