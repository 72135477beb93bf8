"""Inputs of all layouts, packed sequences, and errors for invalid inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
)

from looped import looped
from representer import nn
from representer.errors import ArgumentError, KindError, ShapeError
from representer.nn.recurrent.sequence_layer import SequenceLayer

from .all_layers import (
    EVERY_KIND,
    LENGTHS,
    batch_of,
    build_any,
    build_deep,
    options_of,
    sequences_of,
)
from .layers import EVERY_LAYER, HIDDEN, INPUT, assert_states_equal, batch, build


@EVERY_KIND
@looped(("bidirectional", "make"), [(True, build_any), (False, build_any), (True, build_deep)])
def test_a_packed_batch_matches_its_sequences_one_by_one(
    name: str, bidirectional: bool, make: Callable[..., SequenceLayer]
):
    """The reverse direction starts at true ends; states and windows are those of true ends."""
    layer = make(name, bidirectional=bidirectional)
    sequences = sequences_of(layer)
    packed = pack_sequence(sequences, enforce_sorted=False)
    output, state = layer(packed)
    assert isinstance(output, PackedSequence)
    assert torch.equal(output.batch_sizes, packed.batch_sizes)
    assert torch.equal(output.sorted_indices, packed.sorted_indices)
    assert torch.equal(output.unsorted_indices, packed.unsorted_indices)
    padded, lengths = pad_packed_sequence(output)
    assert lengths.tolist() == list(LENGTHS)
    for b, sequence in enumerate(sequences):
        expected, alone = layer(sequence[:, None])
        torch.testing.assert_close(padded[: LENGTHS[b], b], expected[:, 0])
        assert_states_equal(state.reorder(torch.tensor([b])), alone)


@EVERY_KIND
def test_gradients_of_a_packed_batch_match_those_of_its_sequences(name: str):
    layer = build_any(name, bidirectional=True, **options_of(name))
    leaves = [sequence.requires_grad_() for sequence in sequences_of(layer)]
    output, _ = layer(pack_sequence(leaves, enforce_sorted=False))
    inputs = [*leaves, *layer.parameters()]
    wanted = torch.autograd.grad(sum(layer(s)[0].square().sum() for s in leaves), inputs)
    torch.testing.assert_close(torch.autograd.grad(output.data.square().sum(), inputs), wanted)


def test_lengths_that_do_not_fit_are_named():
    layer, x = build("RKM-CIFG"), batch(6, 3)
    for lengths, error, message in (
        (torch.tensor([6, 2]), ShapeError, r"lengths has shape \(2,\); expected \(3,\)"),
        ([6, 2, 1], KindError, "lengths is list; expected a tensor of 3 integers"),
        (torch.tensor([6, 7, 1]), ArgumentError, r"lengths\[1\] is 7; expected 0 to 6"),
    ):
        with pytest.raises(error, match=message):
            layer(x, lengths=lengths)
    packed = pack_sequence(sequences_of(layer), enforce_sorted=False)
    with pytest.raises(ArgumentError, match="None: a packed batch has its own lengths"):
        layer(packed, lengths=torch.tensor(LENGTHS))


@EVERY_LAYER
@pytest.mark.parametrize("end", [-1, 7])
def test_lengths_out_of_range_are_named_by_every_layer(name: str, end: int):
    for options in ({}, {"filter_length": 2}):
        layer, lengths = build(name, bidirectional=True, **options), torch.tensor([6, end, 1])
        with pytest.raises(ArgumentError, match=rf"lengths\[1\] is {end}; expected 0 to 6"):
            layer(batch(6, 3), lengths=lengths)


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_sorted_packed_batch_stays_without_indices(batch_first: bool):
    layer, x = build("RKM-LSTM", batch_first=batch_first), batch()
    output, _ = layer(pack_padded_sequence(x, torch.tensor([6, 4, 1])))
    assert output.sorted_indices is None
    assert output.unsorted_indices is None
    torch.testing.assert_close(pad_packed_sequence(output)[0][:, 0], layer(x[:, 0])[0])


@EVERY_KIND
def test_a_packed_batch_continues_from_a_state_in_the_order_of_the_batch(name: str):
    layer = build_deep(name)
    sequences = sequences_of(layer)
    state = layer(batch_of(layer, 4, len(sequences)))[1]
    padded, _ = pad_packed_sequence(layer(pack_sequence(sequences, enforce_sorted=False), state)[0])
    for b, sequence in enumerate(sequences):
        alone = layer(sequence[:, None], state.reorder(torch.tensor([b])))[0]
        torch.testing.assert_close(padded[: len(sequence), b], alone[:, 0])


@EVERY_KIND
def test_the_state_of_a_packed_batch_continues_each_sequence_from_its_true_end(name: str):
    layer = build_deep(name)
    sequences, more = sequences_of(layer), batch_of(layer, 4, len(LENGTHS))
    _, state = layer(pack_sequence(sequences, enforce_sorted=False))
    output, _ = layer(more, state)
    for b, sequence in enumerate(sequences):
        whole = layer(torch.cat((sequence, more[:, b])))[0]
        torch.testing.assert_close(output[:, b], whole[len(sequence) :])


BAD: list[tuple[Any, type[Exception], list[str]]] = [
    (
        torch.zeros(5, 2, 7),
        ShapeError,
        ["input has shape (5, 2, 7)", "(time, batch, 3)", "last axis is 7, input_size is 3"],
    ),
    (torch.zeros(5, 7), ShapeError, ["(5, 7)", "unbatched (time, 3)"]),
    (torch.zeros(5), ShapeError, ["input has shape (5,)", "expected (time, batch, 3)"]),
    (torch.zeros(1, 5, 2, 3), ShapeError, ["(1, 5, 2, 3)", "expected (time, batch, 3)"]),
    (torch.zeros(0, 2, 3), ShapeError, ["(0, 2, 3)", "at least one time step"]),
    (torch.zeros(0, 3), ShapeError, ["(0, 3)", "at least one time step"]),
    (torch.zeros(5, 2, 3).long(), KindError, ["torch.int64", "floating-point", "nn.Embedding"]),
    (torch.zeros(5, 2, 3).bool(), KindError, ["torch.bool", "floating-point"]),
    (torch.zeros(5, 2, 3) + 0j, KindError, ["torch.complex64", "floating-point"]),
    (
        torch.zeros(5, 2, 3).double(),
        KindError,
        ["torch.float64", "the layer's torch.float32", "input.to(torch.float32)"],
    ),
    (
        torch.zeros(5, 2, 3, device="meta"),
        KindError,
        ["input is on meta", "the layer's cpu", "input.to('cpu')", "move the layer"],
    ),
    ([[0.0, 0.0, 0.0]], KindError, ["input is list", "a tensor or a PackedSequence"]),
    (None, KindError, ["input is NoneType"]),
    (
        pack_sequence([torch.zeros(2, 7)]),
        ShapeError,
        ["(2, 1, 7)", "last axis is 7, input_size is 3"],
    ),
    (
        pack_sequence([torch.zeros(4), torch.zeros(3), torch.zeros(2)]),
        ShapeError,
        ["input.data has shape (9,)", "expected (steps, features)"],
    ),
    (pack_sequence([torch.zeros(2, 3).long()]), KindError, ["torch.int64", "nn.Embedding"]),
]


@pytest.mark.parametrize(("given", "kind", "parts"), BAD, ids=[parts[0] for _, _, parts in BAD])
def test_errors_for_invalid_inputs_name_the_expected_input_and_the_fix(
    given: Any, kind: type[Exception], parts: list[str]
):
    with pytest.raises(kind) as error:
        nn.RKMLSTM(INPUT, HIDDEN)(given)
    missing = [part for part in parts if part not in str(error.value)]
    assert not missing, str(error.value)
    assert isinstance(error.value, ValueError if kind is ShapeError else TypeError)


def test_autocast_accepts_half_precision_and_rejects_float64():
    layer = nn.RKMLSTM(INPUT, HIDDEN)
    state = layer(torch.zeros(5, 2, INPUT))[1]
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.zeros(5, 2, INPUT).bfloat16())[0].shape == (5, 2, HIDDEN)
        with pytest.raises(KindError, match=r"input is torch.float64; .*input.to\(torch.float32\)"):
            layer(torch.zeros(5, 2, INPUT).double())
        with pytest.raises(KindError, match=r"state.c is torch.float64; expected the layer's"):
            layer(torch.zeros(5, 2, INPUT), state._replace(c=state.c.double()))


def test_autocast_accepts_a_window_in_half_precision_in_both_directions():
    torch.manual_seed(0)
    layer, x = nn.GatedCNN(INPUT, HIDDEN, bidirectional=True, filter_length=2), torch.randn(5, 2, 3)
    lengths = torch.tensor([5, 2])
    (window,) = layer(x)[1]
    half = (tuple(own.bfloat16() for own in window),)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = layer(x, half, lengths=lengths)
    expected, _ = layer(x, (window,), lengths=lengths)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.02)  # 8 bits of a number below 2


def test_with_batch_first_the_expected_layout_is_batch_first():
    layer = nn.RKMLSTM(INPUT, HIDDEN, batch_first=True)
    with pytest.raises(ShapeError, match=r"\(2, 5, 7\); expected \(batch, time, 3\)"):
        layer(torch.zeros(2, 5, 7))
    with pytest.raises(
        ShapeError, match=r"\(2, 0, 3\); expected \(batch, time, 3\).*one time step"
    ):
        layer(torch.zeros(2, 0, 3))


@EVERY_KIND
def test_an_empty_batch_gives_an_empty_output(name: str):
    layer = build_deep(name, bidirectional=True)
    output, state = layer(batch_of(layer, 5, 0))
    assert output.shape == (5, 0, 2 * HIDDEN)
    assert not any(field.numel() for field in torch.utils._pytree.tree_leaves(state))
