"""The public function gated_scan."""

from __future__ import annotations

import torch

from representer.ops import gated_scan

U = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))
DECAY = torch.tensor(0.5)


def test_the_initial_state_is_zero_by_default():
    torch.testing.assert_close(gated_scan(U, DECAY), gated_scan(U, DECAY, torch.zeros(2, 3)))


# The torch backend of gated_scan.


F64 = torch.float64
RUN = torch.ops.representer.gated_scan
