"""The public function gated_scan."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from representer import functional
from representer.ops import gated_scan
from representer.ops.gated_scan import Operands, Results, backward

U = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))
DECAY = torch.tensor(0.5)


def test_the_initial_state_is_zero_by_default():
    torch.testing.assert_close(gated_scan(U, DECAY), gated_scan(U, DECAY, torch.zeros(2, 3)))


@settings(deadline=None, max_examples=15)
@given(time=st.integers(1, 6), units=st.integers(1, 4), seed=st.integers(0, 99), late=st.booleans())
def test_the_scan_is_the_decayed_sum_over_earlier_steps(
    time: int, units: int, seed: int, late: bool
):
    """L19 (9): what step s wrote weighs f_{s+1} ... f_t at step t."""
    generator = torch.Generator().manual_seed(seed)
    u, f = torch.randn(2, time, 2, units, generator=generator, dtype=torch.float64).tanh()
    c0 = torch.randn(2, units, generator=generator, dtype=torch.float64)
    states, final = gated_scan(u, f, c0, reverse=late)
    order = [0] if late else []
    expected = functional.gated_scan_definition(u.flip(order), f.flip(order), c0)
    torch.testing.assert_close(states, expected.flip(order))
    torch.testing.assert_close(final, expected[-1])


# The torch backend of gated_scan.


F64 = torch.float64
RUN = torch.ops.representer.gated_scan


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
