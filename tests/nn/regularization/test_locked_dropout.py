"""Locked dropout: one mask per call and sequence in training."""

from __future__ import annotations

import pytest
import torch

from representer.errors import ArgumentError, ShapeError
from representer.nn import LockedDropout


def test_a_feature_is_dropped_at_every_step_or_at_none() -> None:
    y = LockedDropout(0.4)(torch.ones(7, 50, 20))
    assert (y == y[:1]).all()
    assert y.unique().tolist() == [0, pytest.approx(1 / 0.6)]
    # 1000 draws: the fraction is within 4 standard deviations of 0.4
    assert (y[0] == 0).double().mean().item() == pytest.approx(0.4, abs=0.062)


def test_masks_differ_between_sequences_and_calls() -> None:
    layer, x = LockedDropout(0.5), torch.ones(2, 5, 64)
    first, second = layer(x), layer(x)
    assert not (first[:, 0] == first[:, 1]).all()
    assert not (first == second).all()


def test_the_gradient_uses_the_mask_of_the_output() -> None:
    x = torch.randn(3, 4, 5, requires_grad=True)
    y = LockedDropout(0.5)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, (y / x).detach())


def test_evaluation_and_p_of_0_change_nothing() -> None:
    x = torch.randn(3, 4, 5)
    assert LockedDropout(0.5).eval()(x) is x
    assert LockedDropout(0.0)(x) is x


def test_p_of_1_drops_everything() -> None:
    assert LockedDropout(1.0)(torch.ones(2, 2, 2)).abs().sum() == 0


def test_invalid_inputs_and_probabilities_are_rejected() -> None:
    with pytest.raises(ShapeError, match=r"x has shape \(2, 3\); expected \(time, batch, features"):
        LockedDropout(0.5)(torch.ones(2, 3))
    with pytest.raises(ArgumentError, match=r"p is 1.5; expected a number from 0 to 1"):
        LockedDropout(1.5)
    assert repr(LockedDropout(0.5)) == "LockedDropout(p=0.5)"
