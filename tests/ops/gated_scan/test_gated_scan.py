"""The public function gated_scan."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from representer import functional
from representer.errors import KindError, ShapeError
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


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((4, 3), (), (3,)), r"u has shape \(4, 3\); expected \(time, batch, units\)"),
        (((0, 2, 3), (), (2, 3)), r"u has shape \(0, 2, 3\); .* with at least one step"),
        (((4, 2, 3), (2,), (2, 3)), r"f has shape \(2,\); expected \(4, 2, 3\), \(3,\) or \(\)"),
        (((4, 2, 3), (2, 3), (2, 3)), r"f has shape \(2, 3\); expected \(4, 2, 3\)"),
        (((4, 2, 3), (3,), (3, 2)), r"c0 has shape \(3, 2\); expected \(2, 3\)"),
    ],
)
def test_the_error_for_a_wrong_shape_names_the_operand(
    shapes: tuple[tuple[int, ...], ...], message: str
):
    with pytest.raises(ShapeError, match=message):
        gated_scan(*map(torch.zeros, shapes))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"u": U.long()}, "u is torch.int64; expected a floating-point"),
        ({"f": DECAY.double()}, r"f is torch.float64; expected torch.float32. Use f.to\("),
        ({"c0": torch.zeros(2, 3).half()}, "c0 is torch.float16; expected torch.float32"),
        ({"c0": torch.zeros(2, 3, device="meta")}, "c0 is on meta; expected cpu"),
        ({"lengths": torch.tensor([1.0, 2.0])}, "lengths is torch.float32; expected integers"),
    ],
)
def test_the_error_for_a_wrong_dtype_or_device_names_the_operand(change: dict, message: str):
    with pytest.raises(KindError, match=message):
        gated_scan(**{"u": U, "f": DECAY, **change})


def test_it_runs_on_meta_tensors():
    states, final = gated_scan(U.to("meta"), DECAY.to("meta"))
    assert (states.shape, final.shape) == ((4, 2, 3), (2, 3))
