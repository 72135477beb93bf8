"""Probabilities, intervals and surprise that a model states, compared with the test part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from representer.report.cards import Card
from representer.report.metrics import calibration_error_by_chance, wilson_interval
from representer.report.standing import chance
from representer.report.wording import percent, signed

YES, OVER, UNDER, ON_AVERAGE = "Yes", "Overconfident", "Underconfident", "On average only"
GUESS = "Not beyond chance"
NOTABLE = 0.02  # a smaller gap between confidence and accuracy has no consequence
NOTABLE_ERROR = 0.05  # a smaller calibration error has none


def trust_in_classes(test: Mapping[str, Any]) -> Card:
    """Compare confidence and accuracy, on average and in each bin, and accuracy and chance."""
    bins, (low, high) = test["calibration"]["bins"], test["accuracy_interval"]
    sure = sum(row["count"] * row["confidence"] for row in bins) / test["count"]
    gap = sure - test["accuracy"]
    is_fine = low <= sure <= high or abs(gap) < NOTABLE
    verdict = YES if is_fine else OVER if gap > 0 else UNDER
    error, by_chance = test["calibration"]["error"], calibration_error_by_chance(bins)
    text = (
        f"it is {percent(sure, 0)} sure on average, and right in {percent(test['accuracy'], 0)}; "
        f"calibration error {percent(error)}"
    )
    if is_fine and error > max(NOTABLE_ERROR, by_chance):
        text += f", where exact probabilities would have less than {percent(by_chance)}"
        verdict = ON_AVERAGE
    commonest, share, is_better = chance(test)
    if is_fine and not is_better:
        text += f"; always answering {commonest!r} is right for {percent(share, 0)}"
        verdict = GUESS
    return _trust(verdict, text)


def trust_in_intervals(test: Mapping[str, Any]) -> Card | None:
    """Compare the coverage of the 95 % intervals with 95 %."""
    if "coverage" not in test:
        return None
    held = test["coverage"]["0.95"]
    count = test.get("independent", test["count"])
    low, high = wilson_interval(held * count, count)
    verdict = OVER if high < 0.95 else UNDER if low > 0.95 else YES
    return _trust(verdict, f"its 95\u202f% intervals contain {percent(held, 0)} of the true values")


def trust_in_surprise(test: Mapping[str, Any]) -> Card | None:
    """Compare the surprise that a model expects with the one that it has, in bits per token."""
    if "expected_bits" not in test:
        return None
    low, high = test["surprise_interval"]
    verdict = OVER if low > 0 else UNDER if high < 0 else YES
    return _trust(
        verdict,
        f"it expects a surprise of {test['expected_bits']:.2f} bits per token and has "
        f"{test['expected_bits'] + test['surprise']:.2f}; 95\u202f% interval of the difference "
        f"{signed(low, 2)} to {signed(high, 2)}",
    )


def _trust(verdict: str, text: str) -> Card:
    tone = {YES: "good", OVER: "bad", ON_AVERAGE: "bad", GUESS: "bad"}.get(verdict, "")
    return Card("Can its certainty be trusted?", verdict, text, tone=tone)
