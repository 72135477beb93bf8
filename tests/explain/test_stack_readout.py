from __future__ import annotations

import importlib
from collections import defaultdict

import pytest
import torch
from explain_by_hand import normal
from hypothesis import given, settings
from hypothesis import strategies as st
from string_layers import KIND, PRODUCT, all_forms, enumerate_layer_ngrams
from torch.testing import assert_close

from representer import nn
from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain import stack_readout, string_readout

string_readout_module = importlib.import_module("representer.explain.string_readout")
SHAPES = {
    "layers": st.integers(1, 3), "bidirectional": st.booleans(),
    "time": st.integers(1, 6), "seed": st.integers(0, 2**16),
}  # fmt: skip
OPTIONS = {
    "activation": st.sampled_from([None, "tanh", "relu"]),
    "readout": st.sampled_from(["last", "sum"]),
    "highway": st.booleans(),
}
MACHINES = {
    "RKM-LSTM": (nn.RKMLSTM, {}),
    "CIFG, windows, norm": (nn.RKMCIFG, {"filter_length": 3, "dilation": 2, "layer_norm": True}),
    "RAN": (nn.RAN, {}),
    "Gated CNN": (nn.GatedCNN, {"filter_length": 2}),
    "linear": (nn.RKM, {"q": "linear", "layer_norm": True}),
}


def random_network(kind, order, layers, bidirectional, seed, **options) -> nn.StringKernelRNN:
    """Return a network with equal input and hidden size."""
    combine, normalized, decay = kind
    decay = 0.99 if normalized is True and decay == 1 else decay  # with 1, every term would be 0
    torch.manual_seed(seed)
    layer = nn.StringKernelRNN(
        4, 4, layers, bidirectional=bidirectional, order=order, combine=combine,
        normalized=normalized, decay=decay, dtype=torch.float64, **options,
    )  # fmt: skip
    return with_random_biases(layer)


def with_random_biases(layer):
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if parameter.dim() == 1 or "bias" in name:
                parameter.normal_()
    return layer


def random_readout(layer, time: int, seed: int):
    """Return a sequence, weights of a layer's outputs, and the weighted sum."""
    x = normal(time, layer.input_size, seed=seed + 1)
    v = normal(time, layer.hidden_size * layer.num_directions, seed=seed + 2)
    return x, v, (v * layer(x)[0].detach()).sum().item()


@settings(deadline=None, max_examples=12)
@all_forms(
    time=5, order=2, seed=0, layers=2, bidirectional=True,
    activation="tanh", readout="sum", highway=True,
)  # fmt: skip
@given(kind=KIND, order=st.integers(1, 3), **SHAPES, **OPTIONS)
def test_token_contributions_sum_to_the_readout_of_the_last_layer(
    kind, order, layers, bidirectional, time, seed, **options
):
    layer = random_network(kind, order, layers, bidirectional, seed, **options)
    x, v, y = random_readout(layer, time, seed)
    result = stack_readout(layer, x, v)
    contributions = result.steps()
    assert contributions.shape == (time, 4 * (1 + bidirectional))
    size = 1e-12 * (1 + contributions.abs().sum().item())
    assert contributions.sum().item() + result.constant == pytest.approx(y, rel=1e-10, abs=size)


@settings(deadline=None, max_examples=8)
@given(kind=PRODUCT, order=st.integers(1, 3), activation=OPTIONS["activation"], **SHAPES)
def test_ngram_contributions_of_the_first_layer_sum_to_the_readout_of_the_last(
    kind, order, activation, layers, bidirectional, time, seed
):
    layer = random_network(kind, order, layers, bidirectional, seed, activation=activation)
    x, v, y = random_readout(layer, time, seed)
    result = stack_readout(layer, x, v)
    units = range(4 * (1 + bidirectional))
    terms = [term for unit in units for term in result.ngrams(unit, 10**6)]
    size = 1e-12 * (1 + sum(abs(term.contribution) for term in terms))
    total = sum(term.contribution for term in terms)
    assert total == pytest.approx(y, rel=1e-10, abs=size)
    every, by_place = result.every_ngram(), defaultdict(float)
    for term in terms:
        by_place[tuple(sorted(term.positions))] += term.contribution
    assert every == pytest.approx(by_place, rel=1e-10, abs=size)


@settings(deadline=None, max_examples=8)
@given(kind=PRODUCT, order=st.integers(1, 3), **SHAPES, **OPTIONS)
def test_all_ngrams_and_tokens_of_a_highway_sum_to_the_readout(
    kind, order, layers, bidirectional, time, seed, **options
):
    layer = random_network(kind, order, layers, bidirectional, seed, **options)
    x, v, y = random_readout(layer, time, seed)
    every = stack_readout(layer, x, v).every_ngram()
    assert every is not None
    size = 1e-12 * (1 + sum(map(abs, every.values())))
    assert sum(every.values()) == pytest.approx(y, rel=1e-10, abs=size)


def test_there_is_no_list_of_ngrams_where_tokens_are_added_or_they_are_too_many(monkeypatch):
    added = nn.StringKernelRNN(3, 3, combine="add", dtype=torch.float64)
    x, v = normal(5, 3, seed=1), normal(5, 3, seed=2)
    assert stack_readout(added, x, v).every_ngram() is None
    machine = nn.RKMCIFG(3, 3, dtype=torch.float64)
    assert stack_readout(machine, x, v).every_ngram() is None
    layer = nn.StringKernelRNN(3, 3, order=2, dtype=torch.float64)
    monkeypatch.setattr(string_readout_module, "MOST_TERMS", 5 * 5 * 3)
    assert len(stack_readout(layer, x, v).every_ngram() or {}) == 10
    monkeypatch.setattr(string_readout_module, "MOST_TERMS", 5 * 5 * 3 - 1)
    assert stack_readout(layer, x, v).every_ngram() is None


@pytest.mark.parametrize(("kind", "options"), MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_step_contributions_of_a_kernel_machine_and_the_constant_sum_to_the_readout(
    kind, options, layers, bidirectional
):
    torch.manual_seed(0)
    machine = kind(3, 4, layers, bidirectional=bidirectional, dtype=torch.float64, **options)
    layer = with_random_biases(machine)
    x, v, y = random_readout(layer, 6, 0)
    result = stack_readout(layer, x, v)
    assert result.steps().sum().item() + result.constant == pytest.approx(y, rel=1e-10)
    assert bool(result.constant) == layer.layer_norm
    rows = result.rows(1000)
    assert [abs(row.contribution) for row in rows] == sorted(
        (abs(row.contribution) for row in rows), reverse=True
    )
    for row in rows:  # summed over the units of the row's direction
        first = row.unit // 4 * 4
        total = result.steps()[row.step, first : first + 4].sum().item()
        assert row.contribution == pytest.approx(total, abs=1e-14)
    assert result.rows(2) == rows[:2]


@settings(deadline=None, max_examples=6)
@given(order=st.integers(1, 3), seed=st.integers(0, 2**16), time=st.integers(3, 6))
def test_input_weights_are_the_gradient_over_the_order(order, seed, time):
    """Without activation, y is homogeneous of degree n in the tokens: Euler's x . dy/dx = n y."""
    layer = random_network(("multiply", False, 0.8), order, 1, False, seed, activation=None)
    x, v, _ = random_readout(layer, time, seed)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad((v * layer(x)[0]).sum(), x)
    assert_close(
        string_readout(layer, x, v).input_weights(), gradient / order, rtol=1e-9, atol=1e-12
    )


def test_two_layers_match_an_enumeration_of_the_ngrams_of_both():
    """The contribution of an n-gram of the second layer is divided equally among its tokens."""
    layer = random_network(("multiply", False, 0.7), 2, 2, False, 3, activation=None)
    first, second = layer.part(0), layer.part(1)
    x = normal(5, 4, seed=1)
    h = first(x)[0].detach()
    y = torch.zeros(5, 4, dtype=torch.float64)
    y[-1, 2] = 1
    expected = torch.zeros(5, dtype=torch.float64)
    for positions, contribution in enumerate_layer_ngrams(second, h, 2, 2).items():
        for s, j in zip(positions, (0, 1), strict=True):
            slot = layer.references(1)[2, j]
            parts = h[s] * slot / (h[s] @ slot) * contribution / 2
            for u in range(4):
                below = enumerate_layer_ngrams(first, x[: s + 1], u, 2)
                total = sum(below.values())
                for lower, term in below.items():
                    for t in lower:
                        expected[t] += parts[u] * term / total / 2 if total else 0.0
    result = stack_readout(layer, x, y)
    assert_close(result.steps().sum(1), expected, rtol=1e-10, atol=1e-13)


def test_all_layers_of_a_list_can_be_read_out():
    kind, options = ("multiply", True, "state"), {"activation": "relu", "readout": "sum"}
    layers = [random_network(kind, 2, 1, False, seed, **options) for seed in range(3)]
    x, weights = normal(6, 4, seed=0), [normal(6, 4, seed=s) for s in range(3)]
    h, y = x, 0.0
    for layer, v in zip(layers, weights, strict=True):
        h = layer(h)[0].detach()
        y += (v * h).sum().item()
    assert stack_readout(layers, x, weights).steps().sum().item() == pytest.approx(y, rel=1e-10)


def test_ngram_positions_of_the_reverse_direction_are_descending():
    layer = random_network(("multiply", False, 0.5), 2, 1, True, 0, activation=None)
    x = normal(5, 4, seed=0)
    v = torch.zeros(5, 8, dtype=torch.float64)
    v[0, 4 + 1] = 1  # the reverse direction ends at the first step
    (best, *_) = stack_readout(layer, x, v).ngrams(4 + 1, 1)
    listed = enumerate_layer_ngrams(layer.part(0, reverse=True), x.flip(0), 1, 2)
    positions = max(listed, key=lambda i: abs(listed[i]))
    assert best.positions == tuple(4 - t for t in positions)
    assert best.positions[0] > best.positions[1]
    assert best.contribution == pytest.approx(listed[positions], rel=1e-10)


def test_layers_are_not_modified_and_float32_is_explained_in_float64():
    layer = nn.StringKernelRNN(3, 4, 2, dropout=0.5, order=2)
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    x, v = torch.randn(5, 3), torch.randn(5, 4)
    result = stack_readout(layer, x, v)
    assert result.steps().dtype == torch.float64
    assert layer.training
    assert all(torch.equal(before[n], t) for n, t in layer.state_dict().items())
    y = (v * layer.eval()(x)[0].detach()).sum().item()
    assert result.steps().sum().item() == pytest.approx(y, rel=1e-4, abs=1e-6)


V = torch.zeros(5, 4)
SKN = nn.StringKernelRNN
INVALID = {
    "tanh below": (nn.TABLE1["LSTM"](3, 4, 2), V, KindError, "candidate passes through tanh"),
    "sigmoid": (SKN(3, 4, 2, activation="sigmoid"), V, KindError, "is not 0 at 0"),
    "kind": (torch.nn.LSTM(3, 4), [V], KindError, "layer is LSTM; expected a StringKernelRNN"),
    "width": (SKN(3, 4, bidirectional=True), V, ShapeError, r"weights has shape \(5, 4\)"),
    "number": ([SKN(3, 4)], [V, V], ArgumentError, r"len\(weights\) is 2; expected 1, one for"),
    "nothing": ([], [], ArgumentError, r"len\(weights\) is 0"),
    "sizes": ([SKN(3, 4), SKN(3, 4)], [V, V], ShapeError, r"expected \(time, batch, 3\)"),
}


@pytest.mark.parametrize(("layers", "weights", "error", "message"), INVALID.values(), ids=INVALID)
def test_unsupported_layers_and_weights_are_rejected(layers, weights, error, message):
    layers = [layers] if isinstance(layers, torch.nn.LSTM) else layers
    with pytest.raises(error, match=message):
        stack_readout(layers, torch.zeros(5, 3), weights)


def test_ngrams_need_string_kernel_layers_and_rows_need_kernel_machines():
    x = torch.zeros(5, 3)
    with pytest.raises(KindError, match="Use rows"):
        stack_readout(nn.RAN(3, 4), x, V).ngrams(0, 1)
    with pytest.raises(KindError, match="Use ngrams"):
        stack_readout(SKN(3, 4), x, V).rows(1)
    with pytest.raises(ArgumentError, match="unit is 4; expected an integer from 0 to 3"):
        stack_readout(SKN(3, 4), x, V).ngrams(4, 1)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_first_layer_may_have_a_stride(bidirectional):
    torch.manual_seed(0)
    layer = nn.RKMLSTM(
        3, 4, 2, bidirectional=bidirectional, filter_length=3, stride=2, dtype=torch.float64
    )
    x, v = normal(8, 3, seed=0), normal(4, 8 if bidirectional else 4, seed=1)
    readout = stack_readout(layer, x, v)
    assert readout.steps().shape == (8, v.shape[1])
    y = (v * layer(x)[0]).sum()
    assert_close(readout.steps().sum() + readout.constant, y)
