"""Wavelet filters in every cell of L19 Table 1: Sync-RKM, and strides."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from looped import looped
from representer import nn
from representer.errors import KindError
from representer.functional import ngram_product_definition, wavelet_filters
from representer.nn.recurrent.filters import WaveletFilters
from representer.nn.recurrent.machine import RecurrentKernelMachine

from ..layers import INPUT, TIME, assert_states_equal, batch, build, by_hand

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


def _bank(channels: int = INPUT, n: int = N, **options: Any) -> WaveletFilters:
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
    bank = _bank(channels, n, dilation=dilation, stride=stride)
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


def test_lengths_are_counted_in_strides():
    layer = wavelet_layer("RKM-LSTM", stride=2, num_layers=2, bidirectional=True)
    x = batch()
    packed = pack_padded_sequence(x, torch.tensor([2, 6, 4]), enforce_sorted=False)
    output, lengths = pad_packed_sequence(layer(packed)[0])
    assert lengths.tolist() == [1, 3, 2]
    for k, length in enumerate((2, 6, 4)):
        alone, _ = layer(x[:length, k : k + 1])
        torch.testing.assert_close(output[: length // 2, k], alone[:, 0])


def test_the_first_channel_has_phase_0_and_the_others_are_relative_to_it():
    pinned, free = _bank(), _bank(free_phase=True)
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


def test_layers_with_dense_filters_have_no_wavelets():
    with pytest.raises(KindError, match="expected one with filters='wavelet'"):
        build("RKM-LSTM").wavelets()


def test_further_layers_have_dense_filters():
    layer = wavelet_layer("RKM-CIFG", num_layers=2)
    assert layer.filters(0)["candidate"].shape == (4, INPUT, N)
    assert layer.filters(1)["candidate"].shape == (4, 4, 1)
