"""The layout of a layer: inputs, layers, directions, dropout, steps."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence

from looped import looped
from representer import nn
from representer.errors import ArgumentError, KindError, ShapeError
from representer.nn.recurrent.sequence_layer import Run, SequenceLayer

from .all_layers import ALL, EVERY_KIND, batch_of, build_any, build_deep, options_of
from .layers import EVERY_LAYER, HIDDEN, INPUT, assert_states_equal, batch, build

DEEP = {"num_layers": 2, "filter_length": 2, "dilation": 2}
leaves = torch.utils._pytree.tree_leaves
FLAGS = pytest.mark.parametrize("bidirectional", [False, True])


@EVERY_KIND
@FLAGS
def test_a_batch_first_layer_matches_with_transposed_axes(name: str, bidirectional: bool):
    plain = build_deep(name, bidirectional=bidirectional)
    first = build_deep(name, bidirectional=bidirectional, batch_first=True)
    first.load_state_dict(plain.state_dict())
    x = batch_of(plain)
    output, state = plain(x)
    exchanged, same_state = first(x.transpose(0, 1))
    assert output.shape == (6, 3, HIDDEN * (1 + bidirectional))
    torch.testing.assert_close(exchanged.transpose(0, 1), output)
    assert_states_equal(same_state, state)


@EVERY_KIND
@looped(("bidirectional", "batch_first"), [(False, True), (True, False)])
def test_an_unbatched_sequence_matches_a_batch_of_one(
    name: str, bidirectional: bool, batch_first: bool
):
    layer = build_deep(name, bidirectional=bidirectional, batch_first=batch_first)
    x = batch_of(layer, size=1)
    output, state = layer(x.transpose(0, 1) if batch_first else x)
    alone, own_state = layer(x[:, 0])
    assert alone.shape == (6, HIDDEN * (1 + bidirectional))
    torch.testing.assert_close(alone, output.squeeze(int(not batch_first)))
    for field, own in zip(leaves(state), leaves(own_state), strict=True):
        assert own.dim() == field.dim() - 1
        torch.testing.assert_close(own.squeeze(), field.squeeze())
    again, _ = layer(x[:, 0], own_state)
    going_on, _ = layer(x.transpose(0, 1) if batch_first else x, state)
    torch.testing.assert_close(again, going_on.squeeze(int(not batch_first)))


@EVERY_KIND
def test_the_reverse_direction_matches_a_layer_on_the_flipped_sequence(name: str):
    both = build_any(name, bidirectional=True, **options_of(name))
    alone, x = build_any(name, **options_of(name)), batch_of(both)
    own = {k.replace("_reverse", ""): v for k, v in both.state_dict().items() if "_reverse" in k}
    alone.load_state_dict(own)
    output, state = both(x)
    expected, expected_state = alone(x.flip(0))
    torch.testing.assert_close(output[..., HIDDEN:], expected.flip(0))
    torch.testing.assert_close([f[1] for f in state], [f[0] for f in expected_state])


@EVERY_LAYER
def test_parts_of_a_layer_share_its_parameters_and_reproduce_its_output(name: str):
    layer, x = build(name, bidirectional=True, **DEEP), batch()
    output, state = layer(x)
    parts = [[layer.part(k, reverse) for reverse in (False, True)] for k in (0, 1)]
    h = x
    for k, (forward, backward) in enumerate(parts):
        (a, own), (b, _) = forward(h), backward(h.flip(0))
        h = torch.cat((a, b.flip(0)), dim=-1)
        for field, whole in zip(own[:-1], state[:-1], strict=True):
            torch.testing.assert_close(field[0], whole[2 * k])
        going_on = forward(a.new_zeros(2, 3, forward.input_size), own)[0]
        assert going_on.shape == a[:2].shape
        assert forward.num_layers == backward.num_directions == 1
    torch.testing.assert_close(h, output)
    assert (layer.num_layers, layer.num_directions, len(layer.suffixes)) == (2, 2, 4)
    shared = {p.data_ptr() for row in parts for part in row for p in part.parameters()}
    assert shared == {p.data_ptr() for p in layer.parameters()}
    with pytest.raises(ArgumentError, match="layer is 2; expected 0 to 1"):
        layer.part(2)


@EVERY_LAYER
def test_a_bidirectional_layer_starts_each_direction_from_its_own_state(name: str):
    """Directions with equal weights and exchanged states mirror each other."""
    layer, x = build(name, bidirectional=True, filter_length=2), batch()
    shared = {k.replace("_l0", "_l0_reverse"): v
              for k, v in layer.state_dict().items() if "_reverse" not in k}  # fmt: skip
    layer.load_state_dict({**layer.state_dict(), **shared})
    state = layer(batch())[1]
    exchanged = type(state)(*(field.flip(0) for field in state[:-1]), state.window[::-1])
    output = layer(x, state)[0]
    mirrored = layer(x.flip(0), exchanged)[0].flip(0)
    forward, backward = output.split(HIDDEN, dim=-1)
    torch.testing.assert_close(mirrored, torch.cat((backward, forward), dim=-1))


def test_dropout_acts_between_layers_only_in_training():
    layer, x = build("LSTM", num_layers=2, dropout=1.0), batch()
    plain, cut = (build("LSTM", num_layers=2) for _ in range(2))
    for twin in (plain, cut):
        twin.load_state_dict(layer.state_dict())
    torch.nn.init.zeros_(cut.get_parameter("weight_ih_l1"))
    torch.testing.assert_close(layer(x)[0], cut(x)[0])
    torch.testing.assert_close(layer(x)[1].h, cut(x)[1].h)
    layer.eval()
    torch.testing.assert_close(layer(x)[0], plain(x)[0])


def test_dropout_draws_a_mask_for_every_step():
    layer = build("CNN", num_layers=2, dropout=0.5)
    for parameter in layer.parameters():
        torch.nn.init.constant_(parameter, 1.0)
    x = torch.ones(40, 1, INPUT, dtype=torch.float64)
    assert len(layer(x)[0][:, 0, 0].unique()) > 1


def _watched(layer: SequenceLayer, seen: list[Tensor]) -> Callable[[int], Run]:
    """Return a ``_direction`` that notes the inputs of the directions."""
    direction = layer._direction

    def watched(k: int) -> Run:
        return lambda x, *rest: seen.append(x) or direction(k)(x, *rest)

    return watched


def test_variational_dropout_has_one_mask_per_sequence(
    monkeypatch: pytest.MonkeyPatch,
):
    layer = build("CNN", variational_dropout=0.5)
    seen = []
    monkeypatch.setattr(layer, "_direction", _watched(layer, seen))
    layer(torch.ones(7, 20, INPUT, dtype=torch.float64))
    (x,) = seen
    assert sorted(x.unique().tolist()) == [0.0, 2.0]  # dropped, and rescaled to the same mean
    assert torch.equal(x, x[:1].expand_as(x))
    assert len(x[0].unique(dim=0)) > 1


def test_variational_dropout_acts_before_every_layer_and_not_in_evaluation(
    monkeypatch: pytest.MonkeyPatch,
):
    layer = build("RKM-LSTM", num_layers=2, variational_dropout=1.0)
    seen = []
    monkeypatch.setattr(layer, "_direction", _watched(layer, seen))
    layer(batch())
    assert [bool(x.any()) for x in seen] == [False, False]
    seen.clear()
    layer.eval()
    layer(batch())
    assert [bool(x.any()) for x in seen] == [True, True]


@EVERY_KIND
@looped("batch_first", [False, True])
def test_single_steps_match_the_whole_sequence(name: str, batch_first: bool):
    layer = build_deep(name, batch_first=batch_first)
    x = batch_of(layer)
    whole, final = layer(x.transpose(0, 1) if batch_first else x)
    state, outputs = None, []
    for x_t in x:
        output, state = layer.step(x_t, state)
        assert output.shape == (3, HIDDEN)
        outputs.append(output)
    torch.testing.assert_close(torch.stack(outputs, dim=int(batch_first)), whole)
    assert_states_equal(state, final)
    alone, _ = layer.step(x[1, 0], layer.step(x[0, 0])[1])
    torch.testing.assert_close(alone, outputs[1][0])


def test_step_is_rejected_for_a_bidirectional_layer():
    with pytest.raises(ArgumentError, match=r"bidirectional is True; expected False for step\(\)"):
        build("RKM-LSTM", bidirectional=True).step(batch()[0])


@pytest.mark.parametrize(
    ("x_t", "kind", "message"),
    [
        (
            torch.zeros(2, 7), ShapeError, r"x_t has shape \(2, 7\); expected \(batch, 3\) or un",
        ),
        (torch.zeros(5, 2, 3), ShapeError, r"x_t has shape \(5, 2, 3\).*a single time step"),
        (torch.zeros(()), ShapeError, r"x_t has shape \(\); expected \(batch, 3\)"),
        (pack_sequence([torch.zeros(2, 3)]), KindError, "x_t is PackedSequence; expected a tensor"),
        ([0.0, 0.0, 0.0], KindError, "x_t is list; expected a tensor"),
        (torch.zeros(2, 3).long(), KindError, "torch.int64; expected a floating-point"),
    ],
    ids=lambda value: str(value)[:25],
)  # fmt: skip
def test_invalid_steps_are_rejected(x_t, kind, message: str):
    with pytest.raises(kind, match=message):
        nn.RKMLSTM(INPUT, HIDDEN).step(x_t)


@EVERY_KIND
def test_reset_redraws_parameters_reproducibly_by_seed(name: str):
    layer, drawn = build_deep(name), []
    for parameter in layer.parameters():
        torch.nn.init.constant_(parameter, 7.0)
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        layer.reset_parameters()
        drawn.append({key: p.detach().clone() for key, p in layer.named_parameters()})
    assert not [key for key, p in drawn[0].items() if (p == 7).any()]
    assert all(torch.equal(p, drawn[1][key]) for key, p in drawn[0].items())
    weights = [key for key in drawn[0] if key.startswith("weight_")]
    assert weights
    assert not [key for key in weights if torch.equal(drawn[0][key], drawn[2][key])]


@EVERY_KIND
def test_state_dict_deepcopy_and_pickle_reproduce_the_layer(name: str):
    layer = build_deep(name, bidirectional=True)
    x, other = batch_of(layer), build_deep(name, bidirectional=True)
    other.reset_parameters()
    expected = layer(x)[0]
    assert not torch.equal(other(x)[0], expected)
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    for twin in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x)[0], expected)
        assert repr(twin) == repr(layer)


# random activations amplify a rounding
@pytest.mark.parametrize("name", [n for n in ALL if n not in ("KBRN, plain", "KBRN, own")])
@looped("make", [build_any, build_deep])
def test_autocast_keeps_the_recurrence_in_float32(name: str, make: Callable[..., SequenceLayer]):
    layer = make(name, dtype=torch.float32)
    x = batch_of(layer)
    exact, _ = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        output, state = layer(x)
        again, _ = layer(x.bfloat16(), state)
    assert output.dtype == again.dtype == torch.float32
    assert {f.dtype for f in leaves(state)} <= {torch.float32, torch.int64}
    torch.testing.assert_close(output, exact, rtol=0.1, atol=0.1)  # products of 8 bits
    output.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


EXACT = [(name, {}) for name in ALL if name != "RKM gaussian"]  # which divides inputs by norms
OWN_OUTPUT = [(name, {"output_nonlinearity": torch.sin}) for name in ("LSTM", "RKM-LSTM", "CNN")]


@pytest.mark.parametrize(("name", "options"), EXACT + OWN_OUTPUT)
def test_under_autocast_nothing_but_products_with_the_input_is_rounded(
    name: str, options: dict[str, Any]
):
    """The products of these weights and inputs have at most 8 bits, so their rounding is exact."""
    layer = build_any(name, dtype=torch.float32, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_((16 * parameter).round().clamp(-16, 16) / 16)
    x = (2 * batch_of(layer)).round().clamp(-2, 2)
    exact, state = layer(x)
    again, _ = layer(x, state)
    states = getattr(layer, "cell_states", lambda x: layer(x)[0])
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x)[0], layer(x, state)[0], states(x)
    torch.testing.assert_close(found, (exact, again, states(x)), rtol=1e-6, atol=1e-6)  # 24 bits


@pytest.mark.parametrize("name", ["RKM-LSTM", "CNN"])
def test_lengths_are_divided_by_the_stride_once_in_layers_of_any_depth(name: str):
    layer = build(name, num_layers=3, bidirectional=True, stride=2, filter_length=2)
    sequences = [batch(time, 1)[:, 0] for time in (8, 6, 4)]
    packed, _ = layer(pack_sequence(sequences))
    together, lengths = torch.nn.utils.rnn.pad_packed_sequence(packed)
    assert lengths.tolist() == [4, 3, 2]
    for i, sequence in enumerate(sequences):
        torch.testing.assert_close(together[: lengths[i], i], layer(sequence)[0])
