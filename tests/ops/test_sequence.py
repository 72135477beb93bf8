"""Steps of padded sequences."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from representer.errors import ArgumentError
from representer.nn import RKMLSTM
from representer.ops import common
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


def test_what_is_remembered_of_a_tensor_ends_with_its_values_or_its_life():
    made, remembered = [], common.Remembered()
    x = torch.tensor([3, 1])

    def compute(x: torch.Tensor) -> Any:
        return remembered.get(x, "sum", lambda: made.append(0) or int(x.sum()))

    assert [compute(x), compute(x), len(made)] == [4, 4, 1]
    x[0] = 5
    assert [compute(x), compute(x.clone()), len(made)] == [6, 6, 3]
    with torch.inference_mode():
        y = torch.tensor([1])
        assert [compute(y), compute(y), len(made)] == [1, 1, 5]
    del x
    assert len(remembered._found) == 0


def test_lengths_on_a_device_are_read_once_for_all_layers_and_those_of_a_packed_batch_never(
    monkeypatch: pytest.MonkeyPatch,
):
    layer = RKMLSTM(3, 4, num_layers=2, bidirectional=True)
    x, lengths = torch.randn(5, 2, 3), torch.tensor([3, 5])
    expected, _ = layer(x, lengths=lengths)
    read, copy = [], torch.Tensor.cpu
    monkeypatch.setattr(common, "_is_on_cpu", lambda x: False)
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: read.append(x) or copy(x))
    found, _ = layer(x, lengths=lengths.clone())
    assert torch.equal(found, expected)
    assert len(read) == 1
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    output, _ = pad_packed_sequence(layer(packed)[0])
    torch.testing.assert_close(output, expected)
    indices = [
        x for x in read if any(x is y for y in (packed.unsorted_indices, packed.sorted_indices))
    ]
    assert len(read) - len(indices) == 1
