"""Valid and invalid options of filters."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from representer import nn
from representer.errors import ArgumentError, KindError, ShapeError

from ..layers import INPUT, batch, build, by_hand


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filters": "morlet"}, "filters is 'morlet'; expected 'dense' or 'wavelet'"),
        ({"filters": "wavelet", "filter_length": {2: 3, 3: 1}}, "one length for wavelets"),
        ({"free_phase": True}, "free_phase is True; expected its default without"),
        ({"sampling_rate": 200.0}, "sampling_rate is 200.0; expected its default without"),
        ({"filters": "wavelet", "sampling_rate": 0}, "a positive number of Hz"),
        ({"filters": "wavelet", "sampling_rate": float("inf")}, "a positive number of Hz"),
        ({"filters": "wavelet", "sampling_rate": "200"}, "a positive number of Hz"),
        ({"stride": 0}, "stride is 0; expected a positive integer"),
        ({"dilation": 1.5}, "dilation is 1.5; expected a positive integer"),
    ],
)
def test_invalid_filter_options_are_rejected(options: dict[str, Any], message: str):
    with pytest.raises(ArgumentError, match=message):
        build("RKM-LSTM", **options)


def test_the_gaussian_form_has_dense_filters():
    with pytest.raises(ArgumentError, match="'dense' for q='gaussian'"):
        nn.RKM(3, 4, q="gaussian", filters="wavelet")


def test_input_lengths_must_be_multiples_of_the_stride():
    layer = build("RKM-LSTM", stride=4)
    with pytest.raises(ShapeError, match=r"a multiple of 4 time steps, the stride\. Crop it to 4"):
        layer(batch(time=6))
    packed = torch.nn.utils.rnn.pack_padded_sequence(batch(time=8), torch.tensor([8, 7, 4]))
    with pytest.raises(ShapeError, match="a multiple of 4 time steps"):
        layer(packed)


def test_step_is_rejected_with_a_stride():
    layer = build("RKM-LSTM", stride=2)
    with pytest.raises(ArgumentError, match="stride is 2; expected 1 for step"):
        layer.step(torch.zeros(1, INPUT, dtype=torch.float64))


def test_a_layer_with_a_stride_has_no_kernel():
    with pytest.raises(KindError, match="It skips steps"):
        _ = nn.RKM(3, 4, q="inverse", feedback=False, stride=2).kernel


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
