"""The state between segments: kept, cut off from its past, saved and put back."""

from __future__ import annotations

import pytest
import torch

from language_samples import small_model
from representer.estimators.language_training import CarriedState, detached, example_state
from representer.models import CELLS


def flat(state):
    if isinstance(state, torch.Tensor):
        return [state]
    return [tensor for part in state for tensor in flat(part)]


@pytest.mark.parametrize("cell", CELLS)
def test_a_saved_state_continues_bit_for_bit(cell):
    model = small_model(cell=cell, filter_length=1).eval()
    tokens = torch.arange(20).reshape(10, 2) % 11
    first = model(tokens[:5]).state
    carried, again = (CarriedState(lambda rows: example_state(model, rows)) for _ in range(2))
    carried.value = detached(first)
    again.load_state_dict(carried.state_dict())
    assert type(again.value[0]) is type(first[0])
    assert torch.equal(model(tokens[5:], again.value).features, model(tokens[5:], first).features)


def test_a_detached_state_has_no_past_and_the_same_values():
    state = small_model()(torch.zeros(3, 2, dtype=torch.int64)).state
    cut = detached(state)
    assert any(tensor.requires_grad for tensor in flat(state))
    assert not any(tensor.requires_grad for tensor in flat(cut))
    assert all(torch.equal(a, b) for a, b in zip(flat(state), flat(cut), strict=True))


def test_no_state_is_saved_as_none():
    carried = CarriedState(lambda rows: pytest.fail("asked"))
    assert carried.state_dict() is None
    carried.value = "old"
    carried.load_state_dict(None)
    assert carried.value is None


def test_an_example_leaves_mode_and_random_states():
    model = small_model().train()
    before = torch.get_rng_state()
    example_state(model, 3)
    assert model.training
    assert torch.equal(before, torch.get_rng_state())
