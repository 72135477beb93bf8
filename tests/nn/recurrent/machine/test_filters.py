"""Banks of n-gram filters."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from looped import looped
from representer import nn
from representer.errors import ArgumentError, KindError, ShapeError
from representer.functional import ngram_product_definition, wavelet_filters
from representer.nn.recurrent.filters import FilterBank, WaveletFilters
from representer.nn.recurrent.machine import RecurrentKernelMachine

from ..layers import HIDDEN, INPUT, MIXED, TIME, assert_states_equal, batch, build, by_hand

G, I = 2, 3  # noqa: E741


def _bank(lengths: dict[int, int], **options: Any) -> tuple[FilterBank, list[Tensor]]:
    """Return a bank and weights for it."""
    bank = FilterBank("dense", lengths, **options)
    weights = [torch.empty(G * u, n * I, dtype=torch.float64) for n, u in lengths.items()]
    bank.reset(weights, 0.7)
    return bank, [weight.requires_grad_() for weight in weights]


@settings(deadline=None, max_examples=20)
@given(
    lengths=st.dictionaries(st.integers(1, 4), st.integers(1, 3), min_size=1, max_size=3),
    dilation=st.integers(1, 3), time=st.integers(1, 6), reverse=st.booleans(),
)  # fmt: skip
def test_every_unit_multiplies_its_own_window_in_the_order_of_the_units(
    lengths: dict[int, int], dilation: int, time: int, reverse: bool
):
    bank, weights = _bank(lengths, dilation=dilation)
    x = torch.randn(time, 2, I, dtype=torch.float64)
    zeros = x.new_zeros(bank.reach, 2, I)
    extended = torch.cat((x, zeros) if reverse else (zeros, x))
    products = bank.product(weights, extended, G, reverse=reverse)
    effective = bank.effective(weights, G)
    units = [n for n, count in lengths.items() for _ in range(count)]
    assert effective.shape == (G, len(units), I, max(lengths))
    for unit, n in enumerate(units):
        assert not effective[:, unit, :, n:].any()  # padded with zeros to the longest
        assert effective[:, unit, :, :n].all()
    for gate in range(G):
        order = [0] if reverse else []
        expected = ngram_product_definition(x.flip(order), effective[gate].detach(), dilation)
        torch.testing.assert_close(products[:, :, gate], expected.flip(order))


def test_filters_and_windows_of_unit_length_compare_by_angle():
    bank, weights = _bank({2: 3, 1: 1}, unit_norm=True)
    lengths = bank.effective(weights, G).flatten(2).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths))
    extended = torch.randn(6, 2, I, dtype=torch.float64)
    products = bank.product(weights, extended, G)
    assert (products.abs() <= 1).all()
    torch.testing.assert_close(bank.product(weights, extended * 5, G), products)


def test_coefficients_are_initialized_within_the_bound_of_torch():
    layer = build("LSTM", filter_length=MIXED)
    for tensor in (*layer.filters().values(), *layer.recurrent().values()):
        assert 0 < tensor.abs().max() <= HIDDEN**-0.5
    assert layer.filters()["candidate"].shape == (HIDDEN, INPUT, 3)


# Valid and invalid options of filters.


@pytest.mark.parametrize(("options", "message"), [
    ({"filters": "morlet"}, "filters is 'morlet'; expected 'dense' or 'wavelet'"),
    ({"filters": "wavelet", "filter_length": {2: 3, 3: 1}}, "one length for wavelets"),
    ({"free_phase": True}, "free_phase is True; expected its default without"),
    ({"sampling_rate": 200.0}, "sampling_rate is 200.0; expected its default without"),
    ({"filters": "wavelet", "sampling_rate": 0}, "a positive number of Hz"),
    ({"filters": "wavelet", "sampling_rate": float("inf")}, "a positive number of Hz"),
    ({"filters": "wavelet", "sampling_rate": "200"}, "a positive number of Hz"),
    ({"stride": 0}, "stride is 0; expected a positive integer"),
    ({"dilation": 1.5}, "dilation is 1.5; expected a positive integer"),
])  # fmt: skip
def test_invalid_filter_options_are_rejected(options: dict[str, Any], message: str):
    with pytest.raises(ArgumentError, match=message):
        build("RKM-LSTM", **options)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: nn.RKM(3, 4, q="gaussian", filters="wavelet"), ArgumentError, "'dense' for q='gaus"),
    (lambda: build("RKM-LSTM", stride=2).step(torch.zeros(1, INPUT).double()), ArgumentError,
     "stride is 2; expected 1 for step"),
    (lambda: nn.RKM(3, 4, q="inverse", feedback=False, stride=2).kernel, KindError,
     "It skips steps"),
    (lambda: build("RKM-LSTM").wavelets(), KindError, "expected one with filters='wavelet'"),
])  # fmt: skip
def test_calls_that_some_filters_do_not_allow_are_rejected(call: Any, error: Any, message: str):
    with pytest.raises(error, match=message):
        call()


def test_input_lengths_must_be_multiples_of_the_stride():
    layer = build("RKM-LSTM", stride=4)
    with pytest.raises(ShapeError, match=r"a multiple of 4 time steps, the stride\. Crop it to 4"):
        layer(batch(time=6))
    packed = torch.nn.utils.rnn.pack_padded_sequence(batch(time=8), torch.tensor([8, 7, 4]))
    with pytest.raises(ShapeError, match="a multiple of 4 time steps"):
        layer(packed)


def test_the_repr_shows_the_filters():
    layer = build("RKM-LSTM", filters="wavelet", filter_length=5, stride=2, sampling_rate=100)
    assert "filter_length=5, filters='wavelet', stride=2, sampling_rate=100" in repr(layer)


def test_a_part_of_a_layer_has_its_stride():
    layer = build("RKM-LSTM", stride=2, num_layers=2)
    x, first, second = batch(), layer.part(0), layer.part(1)
    torch.testing.assert_close(second(first(x)[0])[0], layer(x)[0])


def test_every_layer_of_dense_filters_has_their_length_and_dilation():
    layer = build("RKM-LSTM", num_layers=2, filter_length=3, dilation=2, stride=2)
    x = batch()
    below, _ = layer.part(0)(x)
    output, state = layer(x)
    assert layer.filters(1)["candidate"].shape == (4, 4, 3)
    assert [tuple(window.shape) for window in state.window] == [(3, 4, INPUT), (3, 4, 4)]
    expected, _, _ = by_hand(layer, below[:, 0], 1)
    torch.testing.assert_close(output[:, 0], expected)


# Wavelet filters in every cell of L19 Table 1: Sync-RKM, and strides.


WAVELETS = [*nn.TABLE1, "RAN", "RKM"]
EVERY_CELL = pytest.mark.parametrize("name", WAVELETS)
N = 4


def wavelet_layer(name: str, **options: Any) -> RecurrentKernelMachine:
    """Return a layer with wavelets of significant amplitude in every slot."""
    layer = build(name, **{"filters": "wavelet", "filter_length": N, **options})
    for module in layer.modules():
        if isinstance(module, WaveletFilters):
            torch.nn.init.normal_(module.amplitude)
            torch.nn.init.normal_(module.phase)
    return layer


def _wavelet_bank(channels: int = INPUT, n: int = N, **options: Any) -> WaveletFilters:
    bank = WaveletFilters(2, channels, 5, n, dtype=torch.float64, **options)
    bank.reset_parameters()
    torch.nn.init.normal_(bank.phase)
    return bank


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("dilation", "stride"), [(1, 1), (2, 1), (1, 3), (2, 3)])
@pytest.mark.parametrize(("channels", "n"), [(INPUT, N), (14, 30)])
def test_the_convolution_matches_the_product_with_every_window(
    reverse: bool, dilation: int, stride: int, channels: int, n: int
):
    bank = _wavelet_bank(channels, n, dilation=dilation, stride=stride)
    assert bank.is_separable == (n > N)
    x = torch.randn(TIME, 2, channels, dtype=torch.float64)
    zeros = x.new_zeros(bank.reach, 2, channels)
    product = bank(torch.cat((x, zeros) if reverse else (zeros, x)), reverse=reverse)
    order = [0] if reverse else []
    for gate, filters in enumerate(bank.effective()):
        every = ngram_product_definition(x.flip(order), filters.detach(), dilation)
        expected = every[stride - 1 :: stride].flip(order)
        torch.testing.assert_close(product[:, :, gate], expected)


@EVERY_CELL
@looped("stride", [1, 2])
def test_a_cell_with_wavelets_matches_the_dense_cell_with_the_same_filters(name: str, stride: int):
    options = {"bidirectional": True, "stride": stride}
    layer = wavelet_layer(name, **options)
    dense = build(name, filter_length=N, **options)
    state = {k: v for k, v in layer.state_dict().items() if not k.startswith("wavelets")}
    for suffix in layer.suffixes:
        filters = getattr(layer, f"wavelets{suffix}").effective().detach().flatten(0, 1)
        state[f"weight_ih{suffix}"] = filters.transpose(1, 2).flatten(1)
    dense.load_state_dict(state)
    x = batch()
    (expected, last), (output, state) = dense(x), layer(x)
    torch.testing.assert_close(output, expected, rtol=1e-10, atol=1e-12)
    assert_states_equal(state, last)
    assert len(output) == TIME // stride
    packed = pack_padded_sequence(x, torch.tensor([6, 4, 2]))
    torch.testing.assert_close(layer(packed)[0].data, dense(packed)[0].data)


@pytest.mark.parametrize("name", [*nn.TABLE1, "RAN"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_stride_selects_windows(name: str, reverse: bool):
    layer = wavelet_layer(name, stride=2, bidirectional=True)
    x = batch(size=1)
    output, _ = layer(x)
    expected, _, _ = by_hand(layer, x[:, 0], reverse=reverse)
    units = slice(4, None) if reverse else slice(0, 4)
    torch.testing.assert_close(output[:, 0, units], expected)


@EVERY_CELL
@looped("stride", [1, 2])
def test_streaming_in_chunks_matches_the_whole_sequence(name: str, stride: int):
    layer = wavelet_layer(name, stride=stride, num_layers=2)
    x = batch()
    whole, last = layer(x)
    first, state = layer(x[:2])
    second, state = layer(x[2:], state)
    torch.testing.assert_close(torch.cat((first, second)), whole)
    assert_states_equal(state, last)


def test_the_first_channel_has_phase_0_and_the_others_are_relative_to_it():
    pinned, free = _wavelet_bank(), _wavelet_bank(free_phase=True)
    assert not pinned.parts()[2][..., 0].any()
    assert pinned.parts()[2][..., 1:].all()
    assert free.parts()[2].all()
    assert free.phase.numel() == pinned.phase.numel() + 2 * 5


# facts of section 6: K = 30 filters, C = 11 channels, 900 recurrent weights a gate
@pytest.mark.parametrize(("name", "count"), [
    ("LSTM", 6360), ("RKM-LSTM", 6360), ("RKM-CIFG", 4770), ("Linear Kernel w/ o_t", 3180),
    ("Linear Kernel", 1590), ("Gated CNN", 1380), ("CNN", 690),
])  # fmt: skip
@pytest.mark.parametrize("n", [5, 40])
def test_the_number_of_parameters_does_not_depend_on_n(name: str, count: int, n: int):
    layer = nn.TABLE1[name](11, 30, bias=False, filters="wavelet", filter_length=n)
    assert sum(p.numel() for p in layer.parameters()) == count
    free = nn.TABLE1[name](11, 30, bias=False, filters="wavelet", filter_length=n, free_phase=True)
    assert sum(p.numel() for p in free.parameters()) == count + 30 * len(layer.filters())


def test_wavelets_are_reported_in_hertz_and_seconds():
    layer = nn.RKMLSTM(2, 3, filters="wavelet", filter_length=20, sampling_rate=200.0)
    wavelets = layer.wavelets()["input"]
    assert [tuple(part.shape) for part in wavelets] == [(3, 2), (3,), (3, 2), (3,)]
    per_sample = wavelet_filters(
        wavelets.amplitude, wavelets.frequency / 200, wavelets.phase, wavelets.decay / 200**2, 20
    )
    torch.testing.assert_close(per_sample, layer.filters()["input"])
    hertz = wavelets.frequency / (2 * math.pi)
    assert ((hertz >= 0) & (hertz <= 200 / (2 * math.pi))).all()  # as drawn: 0 to 32 Hz


def test_further_layers_have_dense_filters():
    layer = wavelet_layer("RKM-CIFG", num_layers=2)
    assert layer.filters(0)["candidate"].shape == (4, INPUT, N)
    assert layer.filters(1)["candidate"].shape == (4, 4, 1)
