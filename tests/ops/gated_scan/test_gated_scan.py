"""The public function gated_scan."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from representer import functional
from representer.ops import gated_scan

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
