"""Reading and writing of states, and errors for invalid states."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch

from looped import looped
from representer import nn
from representer.errors import KindError, ShapeError
from representer.nn.recurrent.initial import (
    GATE_VARIANCE,
    draw,
    draw_gate,
    gate_moments,
    spread_logits,
)
from representer.nn.recurrent.states import rebuildable

from .all_layers import EVERY_KIND, batch_of, build_deep
from .layers import (
    EVERY_LAYER,
    HIDDEN,
    INPUT,
    LAYERS,
    TIME,
    WITH_MEMORY,
    assert_states_equal,
    batch,
    build,
)

STATEFUL = {"num_layers": 2, "filter_length": 3, "bidirectional": True}


@WITH_MEMORY
def test_for_n_1_a_pair_of_h_and_c_is_accepted_as_in_torch(name: str):
    layer, x = build(name, num_layers=2), batch()
    _, (h, c) = layer(x)
    pair, whole = layer(x, (h, c)), layer(x, nn.RecurrentState(h, c))
    torch.testing.assert_close(pair[0], whole[0])
    assert_states_equal(pair[1], whole[1])
    alone = layer(x[:, 1], (h[:, 1], c[:, 1]))
    torch.testing.assert_close(alone[0], pair[0][:, 1])
    torch.testing.assert_close(alone[1].c, pair[1].c[:, 1])


def _change(**changes: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda state: state._replace(
        **{name: change(getattr(state, name)) for name, change in changes.items()}
    )


BAD: dict[str, tuple[Callable[[Any], Any], type[Exception], list[str]]] = {
    "a bare tensor": (
        lambda state: state.h,
        KindError,
        ["state is one tensor (2, 3, 4)",
         "expected WindowedRecurrentState(h (2, 3, 4), c (2, 3, 4), window)",
         "Pass the complete state that an earlier call returned"],
    ),
    "a dict": (lambda state: state._asdict(), KindError, ["state is dict"]),
    "h and c alone": (
        lambda state: state[:2],
        KindError,
        ["state is a tuple of 2", "window", "Pass the complete state"],
    ),
    "batch-first": (
        _change(h=lambda h: h.transpose(0, 1)),
        ShapeError,
        ["state.h has shape (3, 2, 4)", "expected (2, 3, 4)",
         "never batch-first; use .transpose(0, 1)"],
    ),
    "of another batch": (
        _change(c=lambda c: c[:, :1]),
        ShapeError,
        ["state.c has shape (2, 1, 4)", "expected (2, 3, 4)"],
    ),
    "of another width": (
        _change(h=lambda h: h[..., :2]), ShapeError, ["state.h has shape (2, 3, 2)", "(2, 3, 4)"]
    ),
    "unbatched": (_change(h=lambda h: h[:, 0]), ShapeError, ["(2, 4)", "expected (2, 3, 4)"]),
    "a number": (_change(h=lambda h: 0.0), KindError, ["state.h is float", "a tensor (2, 3, 4)"]),
    "a scalar": (_change(h=lambda h: h.sum()), ShapeError, ["state.h has shape ()", "(2, 3, 4)"]),
    "of another dtype": (
        _change(c=lambda c: c.float()),
        KindError,
        ["state.c is torch.float32", "the layer's torch.float64"],
    ),
    "of another device": (
        _change(h=lambda h: h.to("meta")), KindError, ["state.h is on meta", "the layer's cpu"]
    ),
    "without window": (
        _change(window=lambda w: None), KindError, ["state.window is NoneType", "a tuple of 2"]
    ),
    "with a bare window": (
        _change(window=lambda w: w[0]), KindError, ["state.window is Tensor", "a tuple of 2"]
    ),
    "with a window of one layer": (
        _change(window=lambda w: w[:1]), KindError, ["state.window is a tuple of 1", "a tuple of 2"]
    ),
    "with a short window": (
        _change(window=lambda w: (w[0][:, :1], w[1])),
        ShapeError,
        ["state.window[0] has shape (3, 1, 3)", "expected (3, 2, 3)"],
    ),
    "with a window of another layer": (
        _change(window=lambda w: (w[0], w[0])),
        ShapeError,
        ["state.window[1] has shape (3, 2, 3)", "expected (3, 2, 4)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_errors_for_invalid_states_name_the_expected_state(case: str):
    spoil, kind, parts = BAD[case]
    layer, x = build("RKM-LSTM", num_layers=2, filter_length=3), batch()
    with pytest.raises(kind) as error:
        layer(x, spoil(layer(x)[1]))
    assert not [part for part in parts if part not in str(error.value)], str(error.value)
    assert isinstance(error.value, ValueError if kind is ShapeError else TypeError)


def test_a_list_is_a_state_as_for_lstms():
    layer, x = build("RKM-LSTM"), batch()
    state = layer(x)[1]
    torch.testing.assert_close(layer(x, list(state))[0], layer(x, state)[0], rtol=0, atol=0)


def test_a_batched_state_for_an_unbatched_input_shows_both_shapes():
    layer, x = build("RKM-LSTM", num_layers=2), batch()
    state = layer(x)[1]
    with pytest.raises(ShapeError, match=r"state.h has shape \(2, 3, 4\); expected \(2, 4\)"):
        layer(x[:, 0], state)


def test_a_cell_without_memory_rejects_the_state_of_one_with_memory():
    state = build("RKM-LSTM")(batch())[1]
    with pytest.raises(KindError, match=r"state is a tuple of 2; expected WindowState\(window\)"):
        build("CNN")(batch(), state)
    with pytest.raises(KindError, match=r"state is a tuple of 2; expected WindowState\(window\)"):
        build("CNN", filter_length=2)(batch(), state)


def test_every_field_is_stacked_over_layers_and_directions():
    layer, x = build("RKM-LSTM", num_layers=2, bidirectional=True), batch()
    output, state = layer(x)
    torch.testing.assert_close(state.h[2], output[-1, :, :HIDDEN])  # last layer, forward
    torch.testing.assert_close(state.h[3], output[0, :, HIDDEN:])  # last layer, backward
    first = build("RKM-LSTM", bidirectional=True)
    first.load_state_dict({k: v for k, v in layer.state_dict().items() if "_l0" in k})
    torch.testing.assert_close(state.h[:2], first(x)[1].h)


@EVERY_KIND
@looped("time", [1, TIME])
def test_the_returned_state_shares_no_memory_with_input_or_output(name: str, time: int):
    layer = build_deep(name)
    x = batch_of(layer, time)
    output, state = layer(x)
    owned = {t.untyped_storage().data_ptr() for t in torch.utils._pytree.tree_leaves(state)}
    assert not owned & {x.untyped_storage().data_ptr(), output.untyped_storage().data_ptr()}


@EVERY_LAYER
@looped("n", [1, 2])
def test_a_state_has_exactly_the_fields_of_its_cell(name: str, n: int):
    layer = build(name, filter_length=n)
    fields = ("h", "c") if layer.cell.has_memory else ("window",)  # shows the batch, even if empty
    assert layer(batch())[1]._fields == (
        *fields,
        *(("window",) if n > 1 and layer.cell.has_memory else ()),
    )


STATEFUL_LAYERS: dict[str, Callable[[], Any]] = {
    **{name: partial(build, name, **STATEFUL) for name in LAYERS},
    "RKM-LSTM, n = 1": partial(build, "RKM-LSTM"),
    "CNN, n = 1": partial(build, "CNN"),
    "strings": lambda: nn.StringKernelRNN(INPUT, HIDDEN, 2, order=3, dtype=torch.float64),
    "string masses": lambda: nn.StringKernelRNN(
        INPUT, HIDDEN, order=3, normalized="exact", dtype=torch.float64
    ),
    "KBRN": lambda: nn.KBRN(INPUT, HIDDEN, 2, normalize=False, dtype=torch.float64),
    "KBRN, normalized": lambda: nn.KBRN(INPUT, HIDDEN, dtype=torch.float64).eval(),
}


@pytest.mark.parametrize("name", STATEFUL_LAYERS)
def test_a_reordered_state_continues_the_sequences_at_the_indices(name: str):
    layer, x, indices = STATEFUL_LAYERS[name](), batch(), torch.tensor([2, 0, 2, 1])
    state = layer(x)[1]
    reordered = state.reorder(indices)
    assert type(reordered) is type(state)
    output, after = layer(x[:, indices], reordered)
    expected, expected_after = layer(x, state)
    torch.testing.assert_close(output, expected[:, indices])
    assert_states_equal(after, expected_after.reorder(indices))


@pytest.mark.parametrize(("indices", "kind", "message"), [
    ([0, 1], KindError, "indices is list"),
    (torch.zeros(2), KindError, "indices is torch.float32"),
    (torch.zeros(2, dtype=torch.bool), KindError, "indices is torch.bool"),
    (torch.tensor(1), ShapeError, r"indices has shape \(\)"),
])  # fmt: skip
def test_invalid_indices_are_rejected(indices: Any, kind: type[Exception], message: str):
    with pytest.raises(kind, match=message):
        build("LSTM")(batch())[1].reorder(indices)


@pytest.mark.parametrize("name", ["LSTM", "strings", "KBRN, normalized"])
def test_an_unbatched_state_has_no_sequences_to_reorder(name: str):
    state = (STATEFUL_LAYERS.get(name) or partial(build, name))()(batch()[:, 0])[1]
    with pytest.raises(ShapeError, match="expected a batch to reorder"):
        state.reorder(torch.tensor([0]))


@pytest.mark.parametrize("name", STATEFUL_LAYERS)
def test_a_state_can_be_rebuilt_from_an_iterator_like_a_plain_tuple(name: str):
    state = STATEFUL_LAYERS[name]()(batch())[1]
    for rebuilt in (type(state)(part for part in state), type(state)(*state)):
        assert_states_equal(rebuilt, state)
    assert_states_equal(pickle.loads(pickle.dumps(state.detach())), state)
    with pytest.raises(TypeError, match=r"__new__\(\) (missing|takes)"):
        type(state)(*state, 0, 0, 0, 0)


# The parts of start weights that all recurrent layers share.


def test_memories_cover_all_lengths_up_to_twice_the_units():
    """The fraction of units that forget more slowly than in t steps falls like 1 / t."""
    units = 500
    steps = 1 / (1 - torch.sigmoid(spread_logits(units)))
    for t in (2, 5, 20, 100):
        assert abs(float((steps > t).double().mean()) - 1 / t) <= 1 / units
    torch.testing.assert_close(steps.max(), torch.tensor(2.0 * units, dtype=torch.float64))


def test_the_memories_are_in_random_order():
    torch.manual_seed(0)
    first, second = spread_logits(100), spread_logits(100)
    assert not torch.equal(first, second)
    torch.testing.assert_close(first.sort().values, second.sort().values)


@pytest.mark.parametrize("bias", [-2.0, 0.0, 3.0])
def test_moments_of_a_gate_match_a_large_sample(bias: float):
    n = 50_000
    factors = torch.sigmoid(bias + math.sqrt(GATE_VARIANCE) * torch.randn(n).double())
    found = gate_moments(torch.tensor([bias]))
    for moment, sample in zip(found, (factors**2, (1 - factors) ** 2), strict=True):
        error = 5 * float(sample.std()) / math.sqrt(n)  # five standard errors
        assert abs(float(moment) - float(sample.mean())) < error


def test_rows_are_drawn_with_their_deviations():
    weight = torch.empty(3, 20_000)
    deviations = torch.tensor([0.1, 1.0, 4.0])
    draw(weight, deviations)
    # the standard error of a uniform distribution's deviation is 0.45 / √n, that is 0.3 %
    torch.testing.assert_close(weight.std(1), deviations, rtol=0.015, atol=0)
    assert (weight.abs().amax(1) <= math.sqrt(3) * deviations).all()


def test_a_gate_has_its_variance_for_any_sizes():
    weight, recurrent = torch.empty(4000, 30, dtype=torch.float64), torch.empty(4000, 90).double()
    draw_gate(weight, recurrent, None)
    variance = weight.square().sum(1).mean() + recurrent.square().sum(1).mean()
    torch.testing.assert_close(variance, torch.tensor(GATE_VARIANCE).double(), rtol=0.02, atol=0)


# Named tuples that are rebuilt from iterables.


@rebuildable
class Pair(NamedTuple):
    h: object
    c: object = 5


@rebuildable
class Single(NamedTuple):
    window: object
