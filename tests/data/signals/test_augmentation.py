"""Augmentation of training windows."""

from __future__ import annotations

import sys

import pytest
import torch

from representer.data.signals import augmented


def windows():
    torch.manual_seed(0)
    return torch.randn(200, 3, 50, dtype=torch.float64)


@pytest.fixture
def quiet(monkeypatch):
    monkeypatch.setattr(sys.modules["representer.data.signals.recordings"], "NOISE", 0.0)


def turn(before, after):
    """Return the circular shift of all windows in samples."""
    fits = [k for k in range(50) if torch.allclose(after.abs(), before.roll(k, 2).abs())]
    assert len(fits) == 1
    return fits[0]


def test_windows_are_shifted_and_randomly_negated(quiet, monkeypatch):
    monkeypatch.setattr(sys.modules["representer.data.signals.recordings"], "GAIN", 0.0)
    before = windows()
    after = augmented(before)
    ratio = after / before.roll(turn(before, after), 2)
    torch.testing.assert_close(ratio, ratio[:, :1, :1].expand_as(ratio))  # one sign a window
    assert 60 < int((ratio[:, 0, 0] > 0).sum()) < 140  # five deviations about a half


def test_shifts_differ_between_batches(quiet, monkeypatch):
    monkeypatch.setattr(sys.modules["representer.data.signals.recordings"], "GAIN", 0.0)
    before = windows()
    assert len({turn(before, augmented(before)) for _ in range(8)}) > 3


def test_channels_have_independent_gains(quiet):
    before = windows()
    gains = (augmented(before).norm(dim=2) / before.norm(dim=2)).log()
    assert float(gains.mean()) == pytest.approx(0, abs=0.04)  # five errors of 600
    assert float(gains.std()) == pytest.approx(0.2, abs=0.03)
    assert float((gains - gains.mean(1, keepdim=True)).std()) > 0.12


def test_noise_is_added():
    after = augmented(torch.zeros(200, 3, 50))
    assert float(after.std()) == pytest.approx(0.3, abs=0.01)
    assert after.dtype == torch.float32
