"""The network of series: a mean over the true length."""

from __future__ import annotations

import pytest
import torch

from representer.errors import ArgumentError, ShapeError
from representer.models import SeriesNetwork, SeriesNetworkConfig


def test_padding_has_no_influence():
    torch.manual_seed(0)
    network = SeriesNetwork(SeriesNetworkConfig(2, 3, hidden_size=4)).double().eval()
    x = torch.randn(1, 7, 2).double()
    padded = torch.cat([x, torch.randn(1, 5, 2).double()], 1)
    lengths = torch.tensor([7])
    torch.testing.assert_close(network(padded, lengths), network(x, lengths))


def test_wrong_channels_and_sizes_are_refused():
    network = SeriesNetwork(SeriesNetworkConfig(2, 3, hidden_size=4))
    with pytest.raises(ShapeError, match="series"):
        network(torch.zeros(1, 7, 3), torch.tensor([7]))
    with pytest.raises(ArgumentError, match="hidden_size"):
        SeriesNetworkConfig(2, 3, hidden_size=0)
