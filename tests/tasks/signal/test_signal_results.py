"""Metrics of a signal run over its subjects."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from representer.data.signals import Recordings
from representer.estimators.targets import Classes
from representer.report.metrics import paired_over_subjects
from representer.report.page import Predictions
from representer.tasks.objects import Data
from representer.tasks.signal.data import windows_of
from representer.tasks.signal.flow import by_subject, standing_of

SUBJECTS = ("b", "c", "a")  # in the order of the recordings


def recordings_of(subjects: tuple[str, ...]) -> Recordings:
    """Four windows of each subject, of alternating classes."""
    count = 4 * len(subjects)
    return Recordings(
        signals=np.zeros((count, 1, 2), dtype=np.float32),
        labels=np.tile([0, 1], count // 2),
        classes=("left", "right"),
        subjects=np.repeat(subjects, 4),
        sampling_rate=1.0,
        channels=("Cz",),
    )


def figures(subjects: tuple[str, ...], errors: list[int]) -> dict:
    recordings = recordings_of(subjects)
    predicted = recordings.labels.copy()
    predicted[errors] = 1 - predicted[errors]
    windows = windows_of(recordings, "made up")
    data = Data(Classes(("left", "right")), {"test": windows}, {}, [("all", windows)])
    return by_subject(data, Predictions(predicted))


def test_mean_and_sample_deviation_are_over_subjects():
    result = figures(SUBJECTS, errors=[4, 8, 9])  # one window of c, two windows of a
    accuracies = [1.0, 0.75, 0.5]
    assert list(result["by_subject"].items()) == list(zip(SUBJECTS, accuracies, strict=True))
    assert result["mean"] == pytest.approx(0.75)
    assert result["deviation"] == pytest.approx(statistics.stdev(accuracies))


def test_a_single_subject_has_no_deviation():
    assert figures(("a",), errors=[0])["deviation"] == 0.0


@pytest.mark.parametrize(
    ("gains", "relation", "advice"),
    [
        ((0.1, 0.12, 0.08, 0.11, 0.1, 0.09), "ahead of", ""),
        ((0.1, -0.1, 0.05, -0.02, 0.1, -0.1), "level with", ""),
        ((-0.1, -0.12, -0.08, -0.11, -0.1, -0.1), "behind", ": use band power instead"),
        ((0.1, 0.12, 0.08, 0.11, 0.1), "too few to tell", "; it takes 6"),
    ],
)
def test_the_verdict_is_by_the_interval_of_the_difference_over_subjects(gains, relation, advice):
    ours = {f"s{k}": 0.5 + gain for k, gain in enumerate(gains)}
    baseline = {
        "name": "band power", "difference": paired_over_subjects(ours, dict.fromkeys(ours, 0.5))
    }  # fmt: skip
    found = standing_of("kernel", [baseline], len(gains))
    assert found["standing"]["relation"] == relation
    start = f"On 6 test subjects, kernel is {relation} band power ("
    if len(gains) < 6:
        start = "On 5 test subjects, kernel is not told apart from band power (+10.2 points)"
    assert found["verdict"].startswith(start)
    better = sum(gain > 0 for gain in gains)
    assert (
        f"{advice}. It is ahead on {better} subjects, behind on {len(gains) - better}, level on 0"
        in (found["verdict"])
    )
    assert standing_of("kernel", [], 4) == {"standing": {}, "verdict": ""}
