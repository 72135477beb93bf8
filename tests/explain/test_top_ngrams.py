from __future__ import annotations

import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from string_layers import PRODUCT, SIZES, enumerate_layer_ngrams, sequence, string_layer

from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain import top_ngrams
from representer.nn import RAN, StringKernelRNN


@settings(deadline=None, max_examples=20)
@given(kind=PRODUCT, **SIZES, k=st.integers(1, 30), data=st.data())
def test_the_top_ngrams_match_an_enumeration(kind, time, order, seed, k, data):
    """L17 (3), (4), section 4: products of matches times the gates of the skipped steps."""
    layer = string_layer(kind, order, seed)
    x, read = sequence(time, seed), data.draw(st.integers(1, order))
    ngrams = enumerate_layer_ngrams(layer, x, 1, read)
    result = top_ngrams(layer, x, 1, k, order=read)
    assert len({term.positions for term in result}) == len(result) == min(k, len(ngrams))
    for positions, contribution in result:
        assert contribution == pytest.approx(ngrams[positions], rel=1e-10, abs=1e-300)
    largest = sorted(map(abs, ngrams.values()), reverse=True)[:k]
    assert [abs(term.contribution) for term in result] == pytest.approx(largest, rel=1e-10)


@settings(deadline=None, max_examples=12)
@given(kind=PRODUCT, **SIZES)
def test_all_ngrams_sum_to_the_state(kind, time, order, seed):
    layer, x = string_layer(kind, order, seed), sequence(time, seed)
    contributions = [c for _, c in top_ngrams(layer, x, 2, 10**6)]
    state = layer.cell_states(x)[-1, -1, 2].item()
    assert sum(contributions) == pytest.approx(
        state, rel=1e-10, abs=1e-12 * sum(map(abs, contributions))
    )


def test_positions_are_zero_based_and_the_order_defaults_to_that_of_the_layer():
    layer = string_layer(("multiply", False, 0.5), 2, 0)
    layer.references()[0] = torch.eye(3, dtype=torch.float64)[:2]
    x = torch.eye(3, dtype=torch.float64)[[2, 0, 2, 1, 2]]  # slot 1 at 1, a gap, slot 2 at 3
    best, *others = top_ngrams(layer, x, 0, 10)
    assert best == ((1, 3), 0.25)  # one skipped step inside, one after the end
    assert {term.contribution for term in others} == {0.0}


def test_a_sequence_shorter_than_the_order_has_no_ngrams():
    assert top_ngrams(string_layer(("multiply", "exact", 0.5), 3, 0), sequence(2, 0), 0, 5) == []


def test_the_first_layer_and_direction_of_several_is_explained():
    layer = string_layer(
        ("multiply", False, "state"), 2, 0, num_layers=2, bidirectional=True, highway=True
    )
    x = sequence(6, 0)
    total = sum(c for _, c in top_ngrams(layer, x, 1, 100))
    assert total == pytest.approx(layer.cell_states(x)[-1, -1, 1].item(), rel=1e-10)


def test_a_float32_layer_is_explained_in_float64():
    layer = StringKernelRNN(3, 4, decay="input")
    x = torch.randn(30, 3)
    total = sum(c for _, c in top_ngrams(layer, x, 1, 1000))
    assert total == pytest.approx(layer.double().cell_states(x.double())[-1, -1, 1].item())


@pytest.mark.parametrize(("order", "decay"), [(2, 0.5), (3, "input")])
def test_ten_thousand_tokens_take_less_than_a_second(order, decay):
    layer = StringKernelRNN(50, 20, order=order, decay=decay)
    x = torch.randn(10_000, 50)
    start = time.process_time()
    assert len(top_ngrams(layer, x, 7, 10)) == 10
    assert time.process_time() - start < 1


def explain(layer=None, x=None, unit=0, k=1, order=None):
    layer = StringKernelRNN(3, 3) if layer is None else layer
    top_ngrams(layer, torch.zeros(5, 3) if x is None else x, unit, k, order)


WITH_NAN = torch.tensor([[0.0, 1.0, 2.0], [0.0, float("nan"), 0.0]])


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"layer": RAN(3, 3)}, KindError, "layer is RAN; expected a StringKernelRNN"),
        ({"layer": StringKernelRNN(3, 3, combine="add")}, KindError, "use token_slots"),
        ({"layer": StringKernelRNN(3, 3, combine="add_exact")}, KindError, "use token_slots"),
        ({"x": torch.zeros(5, 2, 3)}, ShapeError, "expected one sequence"),
        ({"x": torch.zeros(5, 4)}, ShapeError, "The last axis is 4, input_size is 3"),
        ({"x": torch.zeros(0, 3)}, ShapeError, "at least one time step"),
        ({"x": torch.zeros(5, 3).int()}, KindError, "input is torch.int32"),
        ({"x": torch.zeros(5, 3).double()}, KindError, "input is torch.float64"),
        ({"x": "abc"}, KindError, r"input is str; expected a tensor \(time, 3\)"),
        ({"x": WITH_NAN}, ArgumentError, r"input\[1\] is \[0.0, nan, 0.0\]; expected finite"),
        ({"unit": 3}, ArgumentError, "unit is 3; expected an integer from 0 to 2"),
        ({"unit": -1}, ArgumentError, "unit is -1"),
        ({"unit": True}, ArgumentError, "unit is True"),
        ({"k": 0}, ArgumentError, "k is 0; expected a positive integer"),
        ({"k": 2.0}, ArgumentError, "k is 2.0"),
        ({"order": 3}, ArgumentError, "order is 3; expected an integer from 1 to 2"),
        ({"order": 0}, ArgumentError, "order is 0"),
    ],
)
def test_invalid_arguments_are_rejected(wrong, error, message):
    with pytest.raises(error, match=message):
        explain(**wrong)
