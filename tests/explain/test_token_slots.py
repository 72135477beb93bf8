from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
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

from representer.errors import ArgumentError, KindError
from representer.explain import token_slots
from representer.nn import RAN, StringKernelRNN


@settings(deadline=None, max_examples=40)
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


@settings(deadline=None, max_examples=24)
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


def test_contributions_of_a_long_sequence_sum_to_the_state():
    layer, x = string_layer(("multiply", False, "input"), 4, 0), sequence(2000, 0)
    state = layer.cell_states(x)[-1, -1].detach()
    assert_close(token_slots(layer, x).sum(0), state.expand(4, -1), rtol=1e-10, atol=1e-12)


def test_invalid_arguments_are_rejected():
    with pytest.raises(KindError, match="layer is RAN"):
        token_slots(RAN(3, 3), torch.zeros(5, 3))
    with pytest.raises(ArgumentError, match="unit is 3"):
        token_slots(StringKernelRNN(3, 3), torch.zeros(5, 3), 3)
    with pytest.raises(ArgumentError, match="order is 3"):
        token_slots(StringKernelRNN(3, 3), torch.zeros(5, 3), order=3)
