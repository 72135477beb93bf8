"""Band importance and phase lags, on a classifier with known ones and on trained models."""

from __future__ import annotations

import math

import pytest
import torch

from representer.errors import ArgumentError, ShapeError
from representer.explain import (
    BandImportance,
    PhaseLags,
    band_importance,
    combined_lags,
    phase_lags,
)

RATE, LAGS = 100.0, (0.0, 70.0, -100.0)


def noise(windows=400, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(windows, 3, 100, generator=generator, dtype=torch.float64)


def classify(signals):
    """Return logits from the power at 12 Hz of the sum of the channels after removing LAGS."""
    time = torch.arange(100, dtype=torch.float64) / RATE
    wave = torch.exp(-2j * math.pi * 12 * time)
    spectrum = torch.einsum("bct,t->bc", signals.to(torch.complex128), wave)
    shift = torch.exp(1j * torch.deg2rad(torch.tensor(LAGS, dtype=torch.float64)))
    power = (spectrum * shift).sum(1).abs().square() / 100
    return torch.stack((-power, power), dim=1)


def test_the_lags_of_the_classifier_are_recovered():
    result = phase_lags(classify, noise(), 1, 12.0, RATE, repeats=40)
    # 16,000 random phase shifts; the standard error of a mean phase is about 1 / sqrt(16000)
    torch.testing.assert_close(result.lags, torch.tensor(LAGS).double(), atol=3.0, rtol=0)
    assert torch.equal(result.evidence.diagonal(), torch.zeros(3, dtype=torch.complex128))
    torch.testing.assert_close(result.evidence, result.evidence.mH)


def test_the_lags_do_not_depend_on_the_phases_of_the_signals():
    """Identical channels have lags of 0 before the random phase shifts."""
    identical = noise()[:, :1].expand(-1, 3, -1)
    result = phase_lags(classify, identical, 1, 12.0, RATE, repeats=40)
    torch.testing.assert_close(result.lags, torch.tensor(LAGS).double(), atol=3.0, rtol=0)


def evidence_with_lags(lags, strengths, scale=1.0):
    """Return the evidence of a model with given lags and channel strengths."""
    shift = torch.exp(-1j * torch.deg2rad(torch.tensor(lags, dtype=torch.float64)))
    leading = shift * torch.tensor(strengths, dtype=torch.float64)
    return PhaseLags(
        torch.tensor(lags), torch.tensor(strengths), scale * torch.outer(leading, leading.conj())
    )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_models_are_weighted_equally_whatever_the_scale_of_their_margins(scale):
    one, other = (
        evidence_with_lags((0.0, 20.0), (1.0, 1.0)),
        evidence_with_lags((0.0, 80.0), (1.0, 1.0), scale),
    )
    result = combined_lags([one, other])
    expected = torch.tensor([0.0, 50.0]).double()  # half-way, by symmetry
    torch.testing.assert_close(result.lags, expected, atol=1e-10, rtol=0)
    torch.testing.assert_close(result.evidence, (one.evidence + other.evidence / scale) / 4)
    zero = evidence_with_lags((0.0, 0.0), (0.0, 0.0))
    torch.testing.assert_close(combined_lags([one, zero, other]).lags, result.lags)


def test_weights_are_the_normalized_channel_strengths():
    result = combined_lags([evidence_with_lags((0.0, 30.0, -90.0), (2.0, 3.0, 6.0))])
    torch.testing.assert_close(result.weights, torch.tensor([2 / 7, 3 / 7, 6 / 7]).double())


def test_channels_in_phase_have_lags_of_positive_zero():
    result = combined_lags([evidence_with_lags((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))])
    assert torch.equal(result.lags, torch.zeros(3).double())
    assert not result.lags.signbit().any()


def test_without_evidence_all_weights_and_lags_are_zero():
    result = combined_lags([evidence_with_lags((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))])
    assert not result.weights.any()
    assert not result.lags.any()


def test_models_that_cannot_be_combined_are_rejected():
    with pytest.raises(ArgumentError, match="models"):
        combined_lags([])
    with pytest.raises(ShapeError, match=r"evidence .* shape for the first model"):
        combined_lags(
            [evidence_with_lags((0.0, 0.0), (1.0, 1.0)), evidence_with_lags((0.0,) * 3, (1.0,) * 3)]
        )


def test_other_frequencies_have_little_evidence():
    spectrum = phase_lags(classify, noise(), 1, 12.0, RATE, repeats=20).evidence.abs().max()
    elsewhere = phase_lags(classify, noise(), 1, 30.0, RATE, repeats=20).evidence.abs().max()
    assert elsewhere < spectrum / 5  # random error remains


def test_the_only_relevant_band_has_all_the_importance():
    signals = noise()
    labels = classify(signals)[:, 1].gt(0.5).long()
    margins = classify(signals)
    result = band_importance(classify, signals, labels, RATE)
    assert result.frequencies.tolist() == list(range(1, 50))
    assert result.loss.argmax() == 11
    own = torch.where(labels == 1, 1.0, -1.0) * 2 * margins[:, 1]
    assert float(result.loss[11]) == pytest.approx(float(own.mean()))  # without it, the margin is 0
    others = torch.cat((result.loss[:11], result.loss[12:]))
    assert others.abs().max() < 1e-9  # rounding of sums over hundreds of terms
    assert result.center == pytest.approx(12)


def test_the_center_excludes_bands_below_half_the_largest_loss():
    frequencies = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    loss = torch.tensor([3.9, 8.0, 4.0, -9.0, 1.0])
    assert BandImportance(frequencies, loss).center == pytest.approx((16 + 12) / 12)


def test_the_evidence_is_averaged_over_the_repeats():
    few, many = (
        phase_lags(classify, noise(), 1, 12.0, RATE, repeats=repeats).evidence.norm()
        for repeats in (2, 8)
    )
    assert float(many / few) == pytest.approx(1, abs=0.2)  # up to random error; a sum would give 4


def test_with_several_classes_the_margin_is_the_log_odds_against_all_others():
    def three(signals):
        return torch.cat((classify(signals), torch.zeros(len(signals), 1)), dim=1)

    result = band_importance(three, noise(50), torch.full((50,), 2), RATE)
    power = classify(noise(50))[:, 1]
    expected = -torch.logaddexp(power, -power).mean() + math.log(2)
    assert float(result.loss[11]) == pytest.approx(float(expected))


@pytest.mark.parametrize(("change", "error", "message"), [
    (
        {"width": 0.5},
        ArgumentError,
        r"width is 0\.5; expected 1 Hz, one over the duration of a window",
    ),
    ({"sampling_rate": 0.0}, ArgumentError, "sampling_rate"),
    ({"signals": torch.ones(3, 100)}, ShapeError, "signals"),
    ({"labels": torch.ones(3)}, ShapeError, "labels"),
])  # fmt: skip
def test_invalid_arguments_of_band_importance_are_rejected(change, error, message):
    valid = {"signals": noise(4), "labels": torch.ones(4).long(), "sampling_rate": RATE}
    options = {**valid, **change}
    with pytest.raises(error, match=message):
        band_importance(classify, **options)


def test_repeats_must_be_positive():
    with pytest.raises(ArgumentError, match="repeats"):
        phase_lags(classify, noise(4), 1, 12.0, RATE, repeats=0)
