"""A string-kernel layer follows torch.nn.LSTM: kinds of input, state, streaming."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_packed_sequence

from looped import looped
from representer import nn
from representer.errors import ArgumentError, KindError, ShapeError

from ..layers import assert_states_equal
from ..string_layers import (
    BATCH,
    EVERY_STRING_LAYER,
    HIDDEN,
    INPUT,
    STRING_LAYERS,
    TIME,
    build_string,
    string_batch,
)

LENGTHS = (3, 6, 1, 6, 2)  # unsorted, with equals, some shorter than the n-gram
FLAGS = pytest.mark.parametrize("bidirectional", [False, True])
DEEP = {"num_layers": 2}


def _sequences() -> list[Tensor]:
    return [torch.randn(length, INPUT, dtype=torch.float64) for length in LENGTHS]


@EVERY_STRING_LAYER
@FLAGS
def test_a_packed_batch_matches_its_sequences_one_by_one(name: str, bidirectional: bool):
    """The reverse direction starts at each true end; the state is that of the true end."""
    layer, sequences = build_string(name, bidirectional=bidirectional, **DEEP), _sequences()
    packed = pack_sequence(sequences, enforce_sorted=False)
    output, state = layer(packed)
    assert isinstance(output, PackedSequence)
    padded, lengths = pad_packed_sequence(output)
    assert lengths.tolist() == list(LENGTHS)
    for b, sequence in enumerate(sequences):
        expected, alone = layer(sequence)
        torch.testing.assert_close(padded[: LENGTHS[b], b], expected)
        for field, wanted in zip(state, alone, strict=True):
            torch.testing.assert_close(field[..., b, :], wanted)


@EVERY_STRING_LAYER
def test_a_packed_batch_continues_from_a_state_in_the_order_of_the_batch(name: str):
    layer, sequences = build_string(name, **DEEP), _sequences()
    state = layer(string_batch(4, len(sequences)))[1]
    padded, _ = pad_packed_sequence(layer(pack_sequence(sequences, enforce_sorted=False), state)[0])
    for b, sequence in enumerate(sequences):
        alone = type(state)(*(f[..., b, :] for f in state))
        torch.testing.assert_close(padded[: len(sequence), b], layer(sequence, alone)[0])


@EVERY_STRING_LAYER
def test_gradients_of_a_packed_batch_match_those_of_its_sequences(name: str):
    layer, sequences = build_string(name, bidirectional=True), _sequences()
    leaves = [sequence.requires_grad_() for sequence in sequences]
    output, _ = layer(pack_sequence(leaves, enforce_sorted=False))
    inputs = [*leaves, *layer.parameters()]
    wanted = torch.autograd.grad(sum(layer(s)[0].square().sum() for s in sequences), inputs)
    torch.testing.assert_close(torch.autograd.grad(output.data.square().sum(), inputs), wanted)


@EVERY_STRING_LAYER
@FLAGS
def test_a_batch_first_layer_matches_with_transposed_axes(name: str, bidirectional: bool):
    plain = build_string(name, bidirectional=bidirectional, **DEEP)
    first = build_string(name, bidirectional=bidirectional, batch_first=True, **DEEP)
    first.load_state_dict(plain.state_dict())
    x = string_batch()
    output, state = plain(x)
    exchanged, same_state = first(x.transpose(0, 1))
    assert output.shape == (TIME, BATCH, HIDDEN * (1 + bidirectional))
    torch.testing.assert_close(exchanged.transpose(0, 1), output)
    assert_states_equal(same_state, state)


@EVERY_STRING_LAYER
@FLAGS
def test_an_unbatched_sequence_matches_a_batch_of_one(name: str, bidirectional: bool):
    layer, x = build_string(name, bidirectional=bidirectional, **DEEP), string_batch(size=1)
    output, state = layer(x)
    alone, own_state = layer(x[:, 0])
    torch.testing.assert_close(alone, output[:, 0])
    for field, own in zip(state, own_state, strict=True):
        torch.testing.assert_close(own, field[..., 0, :])
    torch.testing.assert_close(layer(x[:, 0], own_state)[0], layer(x, state)[0][:, 0])


@EVERY_STRING_LAYER
@looped("split", [[6], [1, 5], [3, 2, 1], [1] * 6])
def test_any_split_into_chunks_matches_the_whole_sequence(name: str, split: list[int]):
    layer, x = build_string(name, **DEEP), string_batch()
    whole, final = layer(x)
    state, outputs = None, []
    for chunk in x.split(split):
        output, state = layer(chunk, state)
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs), whole)
    assert_states_equal(state, final)


@EVERY_STRING_LAYER
@looped("batch_first", [False, True])
def test_single_steps_match_the_whole_sequence(name: str, batch_first: bool):
    layer, x = build_string(name, batch_first=batch_first, **DEEP), string_batch()
    whole, final = layer(x.transpose(0, 1) if batch_first else x)
    state, outputs = None, []
    for x_t in x:
        output, state = layer.step(x_t, state)
        outputs.append(output)
    torch.testing.assert_close(torch.stack(outputs, dim=int(batch_first)), whole)
    assert_states_equal(state, final)
    alone, _ = layer.step(x[1, 0], layer.step(x[0, 0])[1])
    torch.testing.assert_close(alone, outputs[1][0])


@EVERY_STRING_LAYER
def test_the_reverse_direction_matches_a_layer_on_the_flipped_sequence(name: str):
    both, alone, x = build_string(name, bidirectional=True), build_string(name), string_batch()
    own = {k.replace("_reverse", ""): v for k, v in both.state_dict().items() if "_reverse" in k}
    alone.load_state_dict(own)
    output, state = both(x)
    expected, expected_state = alone(x.flip(0))
    torch.testing.assert_close(output[..., HIDDEN:], expected.flip(0))
    for field, wanted in zip(state, expected_state, strict=True):
        torch.testing.assert_close(field[1], wanted[0])


@EVERY_STRING_LAYER
def test_the_first_dimension_of_the_state_is_layers_times_directions(name: str):
    layer = build_string(name, batch_first=True, bidirectional=True, **DEEP)
    _, state = layer(string_batch(5, 2).transpose(0, 1))
    has_mass = name in ("add_exact", "exact", "everything")
    assert type(state) is (nn.StringMassState if has_mass else nn.StringState)
    assert state._fields == (("h", "c", "m") if has_mass else ("h", "c"))
    assert state.h.shape == (4, 2, HIDDEN)
    for field in state[1:]:
        assert field.shape == (4, layer.order, 2, HIDDEN)


@EVERY_STRING_LAYER
def test_the_default_state_is_zeros_and_a_tuple_is_accepted(name: str):
    layer, x = build_string(name, bidirectional=True, **DEEP), string_batch()
    expected, state = layer(x)
    zeros = torch.utils._pytree.tree_map(torch.zeros_like, state)
    torch.testing.assert_close(layer(x, zeros)[0], expected)
    torch.testing.assert_close(layer(x, tuple(zeros))[0], expected)
    torch.testing.assert_close(layer(x, tuple(state))[0], layer(x, state)[0])


@EVERY_STRING_LAYER
def test_a_detached_state_has_the_values_and_no_graph(name: str):
    _, state = build_string(name)(string_batch())
    cut = state.detach()
    assert all(field.requires_grad for field in state)
    assert not any(tensor.requires_grad for tensor in cut)
    assert_states_equal(cut, state)


@EVERY_STRING_LAYER
def test_the_returned_state_shares_no_memory_with_input_or_output(name: str):
    layer, x = build_string(name), string_batch(1)
    output, state = layer(x)
    owned = {field.untyped_storage().data_ptr() for field in state}
    assert not owned & {x.untyped_storage().data_ptr(), output.untyped_storage().data_ptr()}


BAD: dict[str, tuple[Any, type[Exception], list[str]]] = {
    "a bare tensor": (
        lambda s: s.h, KindError,
        ["state is one tensor (2, 3, 4)",
         "StringMassState(h (2, 3, 4), c (2, 3, 3, 4), m (2, 3, 3, 4))"],
    ),
    "without masses": (
        lambda s: nn.StringState(s.h, s.c), KindError,
        ["state is a tuple of 2; expected StringMassState("],
    ),
    "of another order": (
        lambda s: s._replace(c=s.c[:, :2]), ShapeError, ["state.c has shape (2, 2, 3, 4)"]
    ),
    "masses of another batch": (
        lambda s: s._replace(m=s.m[:, :, :1]), ShapeError, ["state.m has shape (2, 3, 1, 4)"]
    ),
    "of another dtype": (
        lambda s: s._replace(m=s.m.float()), KindError, ["state.m is torch.float32"]
    ),
    "a list": (list, KindError, ["state is list"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_errors_for_invalid_states_name_the_expected_state(case: str):
    spoil, kind, parts = BAD[case]
    layer, x = build_string("everything", num_layers=2), string_batch()
    with pytest.raises(kind) as error:
        layer(x, spoil(layer(x)[1]))
    assert not [part for part in parts if part not in str(error.value)], str(error.value)


def test_invalid_inputs_are_rejected():
    layer = nn.StringKernelRNN(3, 4)
    with pytest.raises(ShapeError, match=r"\(5, 2, 7\); expected \(time, batch, 3\)"):
        layer(torch.zeros(5, 2, 7))
    with pytest.raises(ShapeError, match=r"\(0, 2, 3\).*at least one time step"):
        layer(torch.zeros(0, 2, 3))
    with pytest.raises(KindError, match=r"torch.int64; expected a floating-point dtype"):
        layer(torch.zeros(5, 2, 3).long())
    for bad in (torch.zeros(5, 2, 7), torch.zeros(0, 2, 3)):
        with pytest.raises(ShapeError, match=r"expected \(time, batch, 3\)"):
            layer.cell_states(bad)
    with pytest.raises(KindError, match="input is PackedSequence; expected a tensor"):
        layer.cell_states(pack_sequence([torch.zeros(2, 3)]))


def test_missing_layers_and_directions_are_rejected():
    layer = nn.StringKernelRNN(3, 4)
    for ask in (layer.references, layer.decay_gate):
        with pytest.raises(ArgumentError, match="layer is 1; expected 0 to 0"):
            ask(1)
        with pytest.raises(ArgumentError, match="reverse is True; expected False"):
            ask(0, reverse=True)
    with pytest.raises(ArgumentError, match="reverse is True"):
        layer.cell_states(torch.zeros(5, 3), reverse=True)
    with pytest.raises(ArgumentError, match=r"bidirectional is True; expected False for step\(\)"):
        nn.StringKernelRNN(3, 4, bidirectional=True).step(torch.zeros(2, 3))


@EVERY_STRING_LAYER
def test_copies_and_state_dicts_reproduce_the_layer(name: str, tmp_path: Path):
    layer, x = build_string(name, **DEEP), string_batch()
    expected = layer(x)[0]
    torch.testing.assert_close(copy.deepcopy(layer)(x)[0], expected)
    body = io.BytesIO()
    torch.save(layer, body)  # pickles it
    body.seek(0)
    torch.testing.assert_close(torch.load(body, weights_only=False)(x)[0], expected)
    loaded = build_string(name, **DEEP)
    loaded.load_state_dict(layer.state_dict())
    torch.testing.assert_close(loaded(x)[0], expected)


@EVERY_STRING_LAYER
def test_evaluating_the_repr_creates_an_equal_layer(name: str):
    layer = build_string(name, num_layers=2, dropout=0.5, batch_first=True)
    again = eval(repr(layer), {"StringKernelRNN": nn.StringKernelRNN})
    assert repr(again) == repr(layer)
    assert again.chain == layer.chain
    assert (again.decay, again.dropout, again.batch_first) == (layer.decay, 0.5, True)


def test_the_repr_shows_what_differs_from_the_defaults():
    assert repr(nn.StringKernelRNN(3, 4)) == "StringKernelRNN(3, 4)"
    shown = repr(nn.StringKernelRNN(4, 4, order=3, decay="input", highway=True, hidden_dropout=0.2))
    assert shown == (
        "StringKernelRNN(4, 4, order=3, decay='input', highway=True, hidden_dropout=0.2)"
    )


@EVERY_STRING_LAYER
def test_reset_redraws_weights_reproducibly_by_seed(name: str):
    layer = build_string(name, num_layers=2)
    for key, parameter in layer.named_parameters():
        if "bias" in key or "logit" in key:
            torch.nn.init.ones_(parameter)
    first = [parameter.clone() for parameter in layer.parameters()]
    torch.manual_seed(7)
    layer.reset_parameters()
    second = [parameter.clone() for parameter in layer.parameters()]
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    torch.manual_seed(7)
    layer.reset_parameters()
    assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), second, strict=True))


@EVERY_STRING_LAYER
def test_a_layer_created_on_the_meta_device_can_be_materialized(name: str):
    layer, x = build_string(name), string_batch()
    empty = build_string(name, device="meta")
    assert empty(x.to("meta"))[0].is_meta
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(layer.state_dict())
    torch.testing.assert_close(filled(x)[0], layer(x)[0])


@pytest.mark.parametrize("name", ["everything", "learned", "input gate"])
def test_it_compiles_to_one_graph(name: str):
    torch._dynamo.reset()
    layer, x = build_string(name), string_batch(3)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x)[0], layer(x)[0])


@EVERY_STRING_LAYER
def test_autocast_does_not_reduce_the_precision_of_the_recurrence(name: str):
    layer = build_string(name, dtype=torch.float32)
    x = string_batch().float()
    with torch.autocast("cpu", torch.bfloat16):
        output, state = layer(x.bfloat16())
        again, _ = layer(x, state)
    assert output.dtype == again.dtype == state.c.dtype == torch.float32
    torch.testing.assert_close(output, layer(x)[0], rtol=0.1, atol=0.1)  # products of 8 bits


def test_dropout_between_layers_and_of_the_input_acts_only_in_training():
    layer, x = build_string("order 1", num_layers=2, dropout=1.0), string_batch()
    assert not layer(x)[0].any()
    assert layer.eval()(x)[0].all()
    layer = build_string("highway", variational_dropout=1.0)
    assert not layer(x)[0].any()  # the highway uses the masked input, too
    assert layer.eval()(x)[0].all()


def test_hidden_dropout_has_one_mask_per_sequence_in_the_highway():
    """With a fully open gate, the output is sigma(c) times the mask."""
    layer = build_string("highway", hidden_dropout=0.5)
    with torch.no_grad():
        layer.direction(0).bias[1] = 1e9
        layer.weight_hh_l0.zero_()
    x = string_batch(9, 40)
    share = layer(x)[0] / layer.eval()(x)[0]
    assert sorted(share.round(decimals=9).unique().tolist()) == [0.0, 2.0]
    torch.testing.assert_close(share, share[:1].expand_as(share))  # the same at every step
    assert len(share[0].unique(dim=0)) > 1  # different for every sequence


def test_hidden_dropout_is_applied_to_the_input_of_the_decay_gate():
    hidden = build_string("state gate", hidden_dropout=1.0)
    blind = build_string("state gate")
    blind.load_state_dict(hidden.state_dict())
    blind.decay_gate()["state"].zero_()
    x = string_batch()
    torch.testing.assert_close(hidden(x)[0], blind(x)[0])
    assert not torch.equal(hidden.eval()(x)[0], blind(x)[0])


def test_an_empty_batch_gives_an_empty_output():
    output, state = build_string("everything")(string_batch(5, 0))
    assert output.shape == (5, 0, HIDDEN)
    assert state.c.shape == (1, 3, 0, HIDDEN)


@EVERY_STRING_LAYER
def test_views_of_any_stride_are_supported(name: str):
    layer, x = build_string(name), string_batch()
    expected = layer(x)[0]
    transposed = x.transpose(0, 1).contiguous().transpose(0, 1)
    torch.testing.assert_close(layer(transposed)[0], expected)


def test_flatten_parameters_exists_for_compatibility():
    assert build_string("multiply").flatten_parameters() is None


def test_the_rows_cover_every_value_of_every_option():
    seen = {key: {o[key] for o in STRING_LAYERS.values() if key in o} for key in
            ("decay", "combine", "normalized", "readout", "activation", "highway")}  # fmt: skip
    assert {"learned", "input", "state", 0.0, 1.0} <= seen["decay"]
    assert seen["combine"] == {"add", "add_exact"}
    assert seen["normalized"] == {True, "exact"}
    assert seen["activation"] == {None, "relu", "sigmoid"}
