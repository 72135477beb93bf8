"""Certainty is called trustworthy only where the test part agrees with it."""

from __future__ import annotations

from typing import Any

import pytest

from representer.report.metrics import wilson_interval
from representer.report.summary import trust_in_classes, trust_in_intervals


def metrics_of(*bins: tuple[int, float, float], share: float = 0.2) -> dict[str, Any]:
    """Return test metrics from the count, confidence and accuracy of bins."""
    count = sum(own[0] for own in bins)
    accuracy = sum(n * right for n, _, right in bins) / count
    error = sum(n * abs(confidence - right) for n, confidence, right in bins) / count
    return {
        "count": count,
        "accuracy": accuracy,
        "accuracy_interval": wilson_interval(accuracy * count, count),
        "per_class": [{"label": "a", "support": share * count}],
        "calibration": {
            "error": error,
            "bins": [dict(zip(("count", "confidence", "accuracy"), own, strict=True))
                     for own in bins],
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("bins", "verdict"),
    [
        ([(400, 0.8, 0.8)], "Yes"),
        ([(400, 0.815, 0.8)], "Yes"),
        ([(400, 0.9, 0.8)], "Overconfident"),
        ([(400, 0.7, 0.8)], "Underconfident"),
        ([(150, 0.4, 0.65), (150, 0.7, 0.45)], "On average only"),  # opposite mistakes cancel
        ([(12, 0.4, 0.5), (12, 0.7, 0.58)], "Yes"),  # as large by chance on so few
        ([(50_000, 0.4, 0.43), (50_000, 0.7, 0.67)], "Yes"),  # certain, and of no consequence
    ],
)
def test_certainty_is_trusted_where_it_is_near_the_accuracy(bins, verdict):
    assert trust_in_classes(metrics_of(*bins)).figure == verdict


def test_a_model_like_the_constant_guess_is_not_certain():
    found = trust_in_classes(metrics_of((400, 0.95, 0.95), share=0.95))
    assert (found.figure, found.tone) == ("Not beyond chance", "bad")
    assert found.text.endswith("always answering 'a' is right for 95 %".replace(" %", "\u202f%"))


@pytest.mark.parametrize(
    ("held", "verdict"), [(0.95, "Yes"), (0.8, "Overconfident"), (1.0, "Underconfident")]
)
def test_intervals_are_trusted_where_they_hold_what_they_say(held, verdict):
    found = trust_in_intervals({"count": 400, "coverage": {"0.95": held}})
    assert found is not None
    assert found.figure == verdict
