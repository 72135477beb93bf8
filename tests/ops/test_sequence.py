"""Steps of padded sequences."""

from __future__ import annotations

import pytest
import torch

from representer.errors import ArgumentError
from representer.ops.common import Steps, previous

LENGTHS = torch.tensor([2, 4, 0, 3])


@pytest.mark.parametrize("reverse", [False, True])
def test_backwards_reverses_the_steps(reverse: bool):
    steps = Steps(4, None, reverse)
    assert list(steps) == ([3, 2, 1, 0] if reverse else [0, 1, 2, 3])
    assert list(steps.backwards()) == list(steps)[::-1]
    assert all(steps.is_whole(t) for t in steps)


def test_a_step_is_whole_up_to_the_shortest_length():
    steps = Steps(4, torch.tensor([2, 4]), reverse=False)
    assert [steps.is_whole(t) for t in range(4)] == [True, True, False, False]


def test_the_mask_covers_the_steps_before_each_length():
    steps = Steps(4, LENGTHS, reverse=False)
    real = torch.cat([steps.real(t) for t in range(4)], dim=1)
    assert real.sum(1).tolist() == LENGTHS.tolist()
    assert real[0].tolist() == [True, True, False, False]


@pytest.mark.parametrize(("lengths", "place"), [([5, 1], 0), ([4, -1], 1)])
def test_the_error_for_lengths_out_of_range_names_the_index(lengths: list[int], place: int):
    message = rf"lengths\[{place}\] is {lengths[place]}; expected 0 to 4"
    with pytest.raises(ArgumentError, match=message):
        Steps(4, torch.tensor(lengths), reverse=False)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_previous_shifts_the_states_by_one_step(reverse: bool, lengths: torch.Tensor | None):
    time, batch = 4, 4
    states, initial = torch.randn(time, batch, 2), torch.randn(batch, 2)
    real = torch.arange(time)[:, None] < (
        torch.full((batch,), time) if lengths is None else LENGTHS
    )
    states[~real] = 0
    before = previous(states, initial, lengths, reverse)
    for b in range(batch):
        length = int(real[:, b].sum())
        expected = initial[b]
        for t in reversed(range(length)) if reverse else range(length):
            assert torch.equal(before[t, b], expected)
            expected = states[t, b]
