from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from string_layers import EXACT, KINDS, SIZES, all_forms, sequence, string_layer
from torch.testing import assert_close

from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain import substitutions
from representer.nn import StringKernelRNN


def substituted_states(layer, x, unit, words, order):
    """Return the state after every substitution ``(T, V)`` by running the layer on all of them."""
    time = len(x)
    changed = x[:, None, None].repeat(1, time, len(words), 1)
    for t in range(time):
        changed[t, t] = words
    return layer.cell_states(changed.flatten(1, 2))[-1, :, order - 1, unit].detach().view(time, -1)


@settings(deadline=None, max_examples=30)
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


def test_positions_select_rows_of_the_table():
    layer, x = string_layer(("multiply", True, "input"), 2, 0), sequence(6, 0)
    words = sequence(5, 1)
    table = substitutions(layer, x, 0, words)
    assert table.shape == (6, 5)
    assert_close(substitutions(layer, x, 0, words, [4, 1]), table[[4, 1]])


def test_substituting_a_token_by_itself_changes_nothing():
    layer, x = string_layer(("multiply", False, "input"), 3, 0, bias=False), sequence(6, 0)
    state = layer.cell_states(x)[-1, -1, 2].detach()
    assert_close(substitutions(layer, x, 2, x).diagonal(), state.expand(6), **EXACT)


def test_the_table_has_the_dtype_of_the_input():
    layer = StringKernelRNN(3, 4, decay=0.5)
    assert substitutions(layer, torch.randn(5, 3), 0, torch.randn(7, 3)).dtype == torch.float32


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"layer": StringKernelRNN(3, 3, decay="state")}, KindError, "changes all later gates"),
        ({"vocabulary": torch.zeros(7, 4)}, ShapeError, r"vocabulary has shape \(7, 4\)"),
        ({"vocabulary": torch.zeros(3)}, ShapeError, r"expected \(words, 3\)"),
        ({"vocabulary": [[0.0] * 3]}, KindError, "vocabulary is list"),
        ({"vocabulary": torch.zeros(7, 3).double()}, KindError, "device of the input"),
        ({"vocabulary": torch.full((7, 3), torch.inf)}, ArgumentError, r"vocabulary\[0\]"),
        ({"positions": [5]}, ArgumentError, "position is 5; expected an integer from 0 to 4"),
        ({"unit": 3}, ArgumentError, "unit is 3"),
        ({"order": 3}, ArgumentError, "order is 3"),
    ],
)
def test_invalid_arguments_of_substitutions_are_rejected(wrong, error, message):
    valid = {
        "layer": StringKernelRNN(3, 3, decay=0.5), "input": torch.zeros(5, 3), "unit": 0,
        "vocabulary": torch.zeros(7, 3),
    }  # fmt: skip
    with pytest.raises(error, match=message):
        substitutions(**(valid | wrong))
