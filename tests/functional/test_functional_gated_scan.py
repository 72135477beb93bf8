from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from representer.functional import gated_scan, gated_scan_definition


def draw(T, B, H, decay="full", dtype=torch.float64):
    shape = {"scalar": (), "vector": (H,), "full": (T, B, H)}[decay]
    u, f = torch.randn(T, B, H, dtype=dtype), torch.rand(shape, dtype=dtype)
    return u, f, torch.randn(B, H, dtype=dtype)


@settings(deadline=None, max_examples=20)
@given(
    T=st.integers(1, 9), B=st.integers(0, 3), H=st.integers(1, 3),
    decay=st.sampled_from(["scalar", "vector", "full"]), seed=st.integers(0, 2**16),
)  # fmt: skip
def test_the_recurrence_matches_the_definition(T, B, H, decay, seed):
    torch.manual_seed(seed)
    u, f, c0 = draw(T, B, H, decay)
    states, final = gated_scan(u, f, c0)
    torch.testing.assert_close(states, gated_scan_definition(u, f, c0))
    assert torch.equal(final, states[-1])


def test_one_step_matches_the_equation():
    u, f, c0 = draw(1, 2, 3)
    torch.testing.assert_close(gated_scan(u, f, c0)[0], f * c0 + u)


@pytest.mark.parametrize("reverse", [False, True])
def test_beyond_its_length_a_sequence_has_zero_outputs_and_keeps_its_state(reverse):
    u, f, c0 = draw(5, 4, 2)
    lengths = torch.tensor([5, 2, 1, 0])
    states, final = gated_scan(u, f, c0, lengths=lengths, reverse=reverse)
    for b, length in enumerate(lengths):
        if length:
            own = (u[:length, b : b + 1], f[:length, b : b + 1], c0[b : b + 1])
            expected, last = gated_scan(*own, reverse=reverse)
            torch.testing.assert_close((states[:length, b], final[b]), (expected[:, 0], last[0]))
        else:
            assert torch.equal(final[b], c0[b])
        assert not states[length:, b].any()


def test_reverse_scans_the_reversed_sequence():
    u, f, c0 = draw(5, 2, 3)
    states, final = gated_scan(u, f, c0, reverse=True)
    flipped, last = gated_scan(u.flip(0), f.flip(0), c0)
    torch.testing.assert_close((states.flip(0), final), (flipped, last))
