"""The gated convolutional network."""

from __future__ import annotations

import torch
from torch.nn.functional import conv1d, pad

from ..layers import batch, build


def test_the_layer_matches_two_convolutions_of_torch_with_one_as_the_gate():
    layer, x = build("Gated CNN", filter_length=3), batch()
    filters, padded = layer.filters(), pad(x.permute(1, 2, 0), (2, 0))
    gate = conv1d(padded, filters["output"].flip(-1), layer.biases()["output"]).sigmoid()
    expected = gate * conv1d(padded, filters["candidate"].flip(-1))
    torch.testing.assert_close(layer(x)[0], expected.permute(2, 0, 1))


def test_the_layer_has_no_recurrent_weights_and_one_bias():
    layer = build("Gated CNN")
    assert layer.recurrent() == {}
    assert list(layer.biases()) == ["output"]
