"""The convolutional network."""

from __future__ import annotations

import pytest
import torch

from representer.nn import WindowState

from ..layers import batch, build


@pytest.mark.parametrize("dilation", [1, 2])
def test_the_layer_matches_a_causal_convolution_of_torch(dilation: int):
    layer, x = build("CNN", filter_length=3, dilation=dilation), batch()
    kernel = layer.filters()["candidate"].flip(-1)  # conv1d's slots run with time
    padded = torch.nn.functional.pad(x.permute(1, 2, 0), (2 * dilation, 0))
    expected = torch.nn.functional.conv1d(padded, kernel, dilation=dilation).tanh()
    torch.testing.assert_close(layer(x)[0], expected.permute(2, 0, 1))


def test_the_layer_has_no_memory_recurrent_weights_or_biases():
    layer = build("CNN")
    assert layer.recurrent() == layer.biases() == {}
    state = layer(batch())[1]
    assert isinstance(state, WindowState)
    assert state.window[0].shape == (3, 0, 3)
    assert len(list(layer.parameters())) == 1
