"""Steps of padded sequences."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from representer.nn import RKMLSTM
from representer.ops import common


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
