"""A string-kernel layer follows torch.nn.LSTM: kinds of input, state, streaming."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence

from representer import nn
from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import StringChain
from representer.nn.recurrent.initial import fixed_moments, token_deviations

from ..string_layers import STRING_LAYERS, build_string, string_batch

BAD: dict[str, tuple[Any, type[Exception], list[str]]] = {
    "without masses": (
        lambda s: nn.StringState(s.h, s.c), KindError,
        ["state is a tuple of 2",
         "expected StringMassState(h (2, 3, 4), c (2, 3, 3, 4), m (2, 3, 3, 4))"],
    ),
    "of another order": (
        lambda s: s._replace(c=s.c[:, :2]), ShapeError, ["state.c has shape (2, 2, 3, 4)"]
    ),
    "masses of another batch": (
        lambda s: s._replace(m=s.m[:, :, :1]), ShapeError, ["state.m has shape (2, 3, 1, 4)"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_errors_for_invalid_states_name_the_expected_state(case: str):
    spoil, kind, parts = BAD[case]
    layer, x = build_string("everything", num_layers=2), string_batch()
    with pytest.raises(kind) as error:
        layer(x, spoil(layer(x)[1]))
    assert not [part for part in parts if part not in str(error.value)], str(error.value)


def test_invalid_inputs_of_the_cell_states_are_rejected():
    layer = nn.StringKernelRNN(3, 4)
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


def test_the_rows_cover_every_value_of_every_option():
    seen = {key: {o[key] for o in STRING_LAYERS.values() if key in o} for key in
            ("decay", "combine", "normalized", "readout", "activation", "highway")}  # fmt: skip
    assert {"learned", "input", "state", 0.0, 1.0} <= seen["decay"]
    assert seen["combine"] == {"add", "add_exact"}
    assert seen["normalized"] == {True, "exact"}
    assert seen["activation"] == {None, "relu", "sigmoid"}


# The string-kernel layer: each option against enumeration or equations written out.


CLOSE = {"rtol": 1e-10, "atol": 1e-10}


# The options of a string-kernel layer, and errors for invalid ones.


DEFAULTS: dict[str, Any] = {
    "order": 2, "decay": 0.5, "combine": "multiply", "normalized": False, "readout": "last",
    "activation": "tanh", "highway": False,
}  # fmt: skip


OPTIONS_BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"order": 0}, ["order is 0; expected a positive integer"]),
    ({"order": -1}, ["order is -1"]),
    ({"order": 2.0}, ["order is 2.0; expected a positive integer"]),
    ({"order": True}, ["order is True"]),
    ({"decay": -0.1}, ["decay is -0.1; expected a number in [0, 1], 'learned'"]),
    ({"decay": 1.5}, ["decay is 1.5", "weights of n-grams would grow"]),
    ({"decay": math.nan}, ["decay is nan"]),
    ({"decay": True}, ["decay is True"]),
    ({"decay": "gated"}, ["decay is 'gated'", "'learned', 'input' or 'state'"]),
    ({"decay": None}, ["decay is None"]),
    ({"initialization": "authors"}, ["initialization is 'authors'; expected 'unit' or 'paper'"]),
    ({"combine": "sum"}, ["combine is 'sum'; expected 'multiply', 'add' or 'add_exact'"]),
    ({"normalized": "paper"}, ["normalized is 'paper'; expected False, True or 'exact'"]),
    ({"normalized": 1}, ["normalized is 1"]),
    ({"readout": "mean"}, ["readout is 'mean'; expected 'last', 'sum' or 'weighted'"]),
    ({"activation": "gelu"}, ["activation is 'gelu'; expected one of identity, linear"]),
    ({"order": (2, 2)}, ["order is (2, 2); expected one for each of the 1 layers"]),
    ({"order": (2, 0), "num_layers": 2}, ["order is (2, 0); expected integers of at least 1"]),
    (
        {"highway": True},
        ["highway is True; expected False", "hidden_size = 4 features", "inputs have [3]"],
    ),
    ({"highway": True, "bidirectional": True, "num_layers": 2}, ["inputs have [3, 8]"]),
    (
        {"hidden_dropout": 0.5, "decay": 0.5},
        ["hidden_dropout is 0.5; expected 0 for gates that", "decay='state' or highway=True"],
    ),
    ({"hidden_dropout": 1.5, "decay": "state"}, ["hidden_dropout is 1.5; expected a number"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "parts"), OPTIONS_BAD, ids=[str(options) for options, _ in OPTIONS_BAD]
)
def test_errors_for_invalid_options_name_the_expected_values(
    options: dict[str, Any], parts: list[str]
):
    with pytest.raises(ArgumentError) as error:
        nn.StringKernelRNN(3, 4, **options)
    assert not [part for part in parts if part not in str(error.value)], str(error.value)


def test_dropout_without_a_second_layer_warns_at_the_constructor_call():
    with pytest.warns(UserWarning, match="acts between layers, and num_layers is 1") as caught:
        nn.StringKernelRNN(3, 4, dropout=0.5)
    assert caught[0].filename == __file__


# Every state of a string-kernel layer has unit variance over random inputs.


ORDER, INPUT, UNITS, BATCH, LONG = 3, 16, 120, 30, 150


class Sampled(NamedTuple):
    """Mean squares of c_1 … c_n over random weights and inputs, with four standard errors."""

    mean: Tensor
    error: Tensor


def sampled(length: int = LONG, **options: Any) -> Sampled:
    """Return the mean squares of the states of the last step.

    All units read the same inputs and all inputs are read by the same units, so both the means over
    units and those over inputs vary, and their standard errors add.
    """
    torch.manual_seed(3)
    layer = nn.StringKernelRNN(INPUT, UNITS, order=ORDER, dtype=torch.float64, **options)
    x = torch.randn(length, BATCH, INPUT, dtype=torch.float64)
    with torch.no_grad():
        squares = layer.cell_states(x)[-1].square()  # (B, n, H)
    over_units, over_inputs = squares.mean(2), squares.mean(0)
    error = (over_units.var(0) / BATCH + over_inputs.var(1) / UNITS).sqrt()
    return Sampled(squares.mean((0, 2)), 4 * error)


def tail(length: int, chance: float, least: int) -> float:
    """Return the probability of ``least`` or more successes in ``length`` trials."""
    terms = (
        math.comb(length, k) * chance**k * (1 - chance) ** (length - k)
        for k in range(least, length + 1)
    )
    return sum(terms)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, "learned", "input", "state"])
def test_every_state_of_a_product_has_unit_variance(normalized: bool, decay: float | str):
    found = sampled(normalized=normalized, decay=decay)
    # a unit of the slowest decays has not reached its limit, and a gate on h is correlated with c
    slack = {"state": 0.2, "input": 0.05, "learned": 0.05}.get(str(decay), 0.0)
    assert ((found.mean - 1).abs() < found.error + slack).all()


@pytest.mark.parametrize("combine", ["multiply", "add", "add_exact"])
@pytest.mark.parametrize("decay", [0.9, 0.99, 0.999, 1.0, "learned", "input", "state"])
def test_an_average_is_never_out_of_scale(combine: str, decay: float | str):
    """Its variance falls from the first n-gram on: from 27 for products, from 91 for sums."""
    for length in (ORDER, 10, LONG):
        mean = sampled(length, combine=combine, normalized="exact", decay=decay).mean[-1]
        assert 1e-5 < float(mean) < 120


@pytest.mark.parametrize("combine", ["multiply", "add", "add_exact"])
@pytest.mark.parametrize("decay", [0.99, 0.999, 0.9999])
def test_terms_with_a_factor_near_0_do_not_vanish(combine: str, decay: float):
    found = sampled(combine=combine, normalized=True, decay=decay)
    assert 0.01 < float(found.mean[-1]) < 3


def test_a_decay_that_would_make_every_term_0_is_refused():
    with pytest.raises(ArgumentError, match=r"factor 1 − λ = 0\. Use normalized="):
        nn.StringKernelRNN(3, 4, decay=1.0, normalized=True)


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.5])
def test_states_that_are_divided_by_their_masses_have_unit_variance(decay: float):
    found = sampled(normalized="exact", decay=decay)
    assert ((found.mean - 1).abs() < found.error).all()


@pytest.mark.parametrize("combine", ["add", "add_exact"])
@pytest.mark.parametrize(
    ("normalized", "decay"),
    [(False, 0.0), (False, 0.5), (False, 0.9), (True, 0.0), (True, 0.5), (True, 0.9),
     ("exact", 0.0), ("exact", 0.5)],
)  # fmt: skip
def test_the_last_state_of_a_sum_has_unit_variance(combine, normalized, decay):
    found = sampled(combine=combine, normalized=normalized, decay=decay)
    assert abs(float(found.mean[-1]) - 1) < float(found.error[-1])


@pytest.mark.parametrize("decay", ["learned", "input", "state"])
def test_the_last_state_of_a_sum_with_spread_decays_has_unit_variance(decay):
    """Up to a fifth: slow units have not reached their limit, and gates vary with the input."""
    found = sampled(combine="add", decay=decay)
    assert abs(float(found.mean[-1]) - 1) < 0.2


@pytest.mark.parametrize("decay", [0.2, 0.7])
def test_the_tokens_of_a_sum_contribute_the_energy_of_their_responses_equally(decay: float):
    """Token k passes m = n − k further decays, with the response C(t, m) λ^{t−m}."""
    n, moments = 4, fixed_moments(torch.tensor([decay], dtype=torch.float64))
    deviations = token_deviations(StringChain(n, "add"), moments)
    for k, deviation in enumerate(deviations, start=1):
        m = n - k
        energy = sum(math.comb(t, m) ** 2 * decay ** (2 * (t - m)) for t in range(m, 300))
        assert math.isclose(float(deviation) ** 2 * energy, 1 / n, rel_tol=1e-9)


def test_a_decay_of_one_has_unit_variance_after_a_hundred_steps():
    """Var c_1[t] = t (1 − LONGEST²), which has no limit."""
    found = sampled(100, decay=1.0)
    assert abs(float(found.mean[0]) - 1) < float(found.error[0])


def test_memories_of_a_gate_and_a_learned_decay_are_spread():
    learned = nn.StringKernelRNN(3, 50, decay="learned").decay_gate()
    gate = nn.StringKernelRNN(3, 50).decay_gate()
    assert isinstance(learned, Tensor)
    assert isinstance(gate, dict)
    even = (torch.arange(50) + 0.5) / 50
    torch.testing.assert_close(learned.sort().values, even)
    torch.testing.assert_close(torch.sigmoid(gate["bias"]).sort().values, even)
