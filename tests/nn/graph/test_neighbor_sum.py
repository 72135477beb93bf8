"""The operator and message passing give the same sum over neighbors."""

from __future__ import annotations

import pytest
import torch

from ops.samples.walk_aggregate import PARTS, SIZES, tensors
from representer.nn.graph.walks import NeighborSum


@pytest.mark.parametrize("parts", PARTS)
def test_message_passing_with_a_mask_of_ones_matches_the_operator(parts):
    sums, given = NeighborSum(), tensors(SIZES["5x9x3x17"], parts, torch.float64)
    options = {"scale": 3.0, "activation": "tanh" if "shift" in parts else "identity"}
    expected = sums(**given, **options)
    sums.explain, sums._edge_mask, sums._apply_sigmoid = True, torch.ones(9).double(), False
    torch.testing.assert_close(sums(**given, **options), expected, rtol=1e-10, atol=1e-12)
