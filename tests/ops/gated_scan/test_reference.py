"""The torch backend of gated_scan."""

from __future__ import annotations

import torch

from representer.ops.gated_scan.reference import Operands, Results, backward

F64 = torch.float64
RUN = torch.ops.representer.gated_scan


def test_a_hand_computed_scan():
    u = torch.tensor([1.0, 2.0, 4.0], dtype=F64)[:, None, None]
    half, one = torch.tensor(0.5, dtype=F64), torch.ones(1, 1, dtype=F64)
    states, final = RUN(u, half, one, None, False, "reference")
    assert states.flatten().tolist() == [1.5, 2.75, 5.375]
    assert final.item() == 5.375


def test_a_hand_computed_reversed_scan_starts_at_the_true_end():
    u = torch.tensor([1.0, 2.0, 4.0], dtype=F64)[:, None, None]
    half, one = torch.tensor(0.5, dtype=F64), torch.ones(1, 1, dtype=F64)
    states, final = RUN(u, half, one, torch.tensor([2]), True, "reference")
    assert states.flatten().tolist() == [2.25, 2.5, 0.0]
    assert final.item() == 2.25


def test_a_hand_computed_gradient():
    """Step 2's state is 0.5 * (0.5 * c0 + u_1) + u_2."""
    f, c0 = torch.tensor([0.5], dtype=F64), torch.full((1, 1), 3.0, dtype=F64)
    u = torch.tensor([1.0, 2.0], dtype=F64)[:, None, None]
    p = Operands(u, f, c0, None, False)
    upstream = torch.tensor([0.0, 1.0], dtype=F64)[:, None, None]
    found = backward(
        p, Results(*RUN(*p, "reference")), Results(upstream, torch.zeros(1, 1, dtype=F64)), ()
    )
    assert found["u"].flatten().tolist() == [0.5, 1.0]
    assert found["f"].tolist() == [2.5 + 0.5 * 3.0]  # c_1 + f c0
    assert found["c0"].item() == 0.25
