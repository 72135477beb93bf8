"""The window of an n-gram layer: streaming in any split matches the whole sequence."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from representer.nn.recurrent.machine import extend, last_inputs

from ..layers import (
    EVERY_LAYER,
    LAYERS,
    MIXED,
    assert_states_equal,
    batch,
    build,
)

T, B, I, P = 5, 2, 3, 4  # noqa: E741
LENGTHS = torch.tensor([2, 5])
OPTIONS = {
    "1-gram": {},
    "3-gram": {"filter_length": 3},
    "dilated": {"filter_length": 3, "dilation": 2},
    "mixed": {"filter_length": MIXED, "dilation": 2},
    "norm": {"layer_norm": True, "filter_length": 2},
    "deep": {"num_layers": 3, "filter_length": 2, "dropout": 0.5, "variational_dropout": 0.5},
    "zoneout": {"zoneout": (0.3, 0.2), "filter_length": 2, "weight_drop": 0.5},
}


@settings(deadline=None, max_examples=13)
@given(
    name=st.sampled_from(list(LAYERS)),
    options=st.sampled_from(list(OPTIONS)),
    chunks=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    batch_first=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_any_split_into_chunks_gives_the_output_of_the_whole_sequence(
    name: str, options: str, chunks: list[int], batch_first: bool, seed: int
):
    torch.manual_seed(seed)
    kept = {k: v for k, v in OPTIONS[options].items() if k != "zoneout" or "CNN" not in name}
    layer = build(name, batch_first=batch_first, **kept).eval()
    x = batch(sum(chunks))
    whole, final = layer(x.transpose(0, 1) if batch_first else x)
    assume(bool(whole.isfinite().all()))  # a Gaussian q that is fed back may grow without bound
    state, outputs = None, []
    for chunk in x.split(chunks):
        output, state = layer(chunk.transpose(0, 1) if batch_first else chunk, state)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, dim=int(batch_first)), whole)
    assert_states_equal(state, final)


@EVERY_LAYER
def test_gradients_through_chunks_match_those_of_the_whole_sequence(name: str):
    layer, x = build(name, filter_length=2), batch().requires_grad_()
    parameters = [x, *layer.parameters()]
    whole = torch.autograd.grad(layer(x)[0].square().sum(), parameters)
    first, state = layer(x[:2])
    second, _ = layer(x[2:], state)
    split = torch.autograd.grad(first.square().sum() + second.square().sum(), parameters)
    torch.testing.assert_close(split, whole)


@pytest.mark.parametrize("name", ["RKM-LSTM", "CNN"])
def test_the_window_contains_the_last_inputs_of_each_layer_oldest_first(name: str):
    layer, x = build(name, num_layers=2, filter_length=3, dilation=2), batch()
    _, state = layer(x)
    assert torch.equal(state.window[0], x[-4:].transpose(0, 1))
    between, _ = layer.part(0)(x)
    assert torch.equal(state.window[1], between[-4:].transpose(0, 1))


def test_a_chunk_shorter_than_the_window_keeps_older_inputs():
    layer, x = build("CNN", filter_length=5), batch(3)
    _, state = layer(x[:2])
    _, state = layer(x[2:], state)
    expected = torch.cat((torch.zeros(3, 1, 3, dtype=torch.float64), x.transpose(0, 1)), dim=1)
    assert torch.equal(state.window[0], expected)


def test_a_state_of_n_1_has_no_window():
    _, state = build("RKM-LSTM", num_layers=2, dilation=3)(batch())
    assert state._fields == ("h", "c")


def _random() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(T, B, I), torch.randn(B, P, I)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_the_window_precedes_the_sequence_in_the_forward_direction(lengths: torch.Tensor | None):
    x, window = _random()
    extended = extend(x, window, lengths, reverse=False)
    assert torch.equal(extended, torch.cat((window.transpose(0, 1), x)))
    new = last_inputs(extended, P, lengths, reverse=False)
    for b in range(B):
        seen = torch.cat((window[b], x[: T if lengths is None else LENGTHS[b], b]))
        assert torch.equal(new[b], seen[-P:])


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_the_window_follows_each_true_end_in_the_reverse_direction(
    lengths: torch.Tensor | None,
):
    x, window = _random()
    extended = extend(x, window, lengths, reverse=True)
    new = last_inputs(extended, P, lengths, reverse=True)
    assert extended.shape == (T + P, B, I)
    for b in range(B):
        true = x[: T if lengths is None else LENGTHS[b], b]
        assert torch.equal(extended[: len(true) + P, b], torch.cat((true, window[b].flip(0))))
        read = torch.cat((window[b], true.flip(0)))  # in the order of reading
        assert torch.equal(new[b], read[-P:])


@pytest.mark.parametrize("name", ["CNN", "Gated CNN"])
def test_the_reverse_direction_uses_the_inputs_after_the_sequence(name: str):
    layer, x = build(name, bidirectional=True, filter_length=3), batch(8)
    whole, state = layer(x)
    before, behind = x[:2].transpose(0, 1), x[6:].flip(0).transpose(0, 1)
    middle, _ = layer(x[2:6], type(state)((before, behind)))
    torch.testing.assert_close(middle, whole[2:6])


def test_the_reverse_direction_uses_packed_windows_after_the_true_ends():
    layer, x = build("CNN", bidirectional=True, filter_length=3), batch(4)
    lengths, window = torch.tensor([4, 1, 2]), torch.randn(2, 3, 2, 3, dtype=torch.float64)
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    state = layer(x)[1]._replace(window=tuple(window))
    output, _ = pad_packed_sequence(layer(packed, state)[0])
    for b, length in enumerate(lengths.tolist()):
        own = state._replace(window=tuple(window[:, b]))
        torch.testing.assert_close(output[:length, b], layer(x[:length, b], own)[0])
