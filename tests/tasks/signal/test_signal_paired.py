"""The test over subjects: against sums by hand, ties and all."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata, ttest_1samp, wilcoxon

from representer.errors import ArgumentError
from representer.report.metrics import paired_over_subjects


def paired(differences):
    ours = {f"s{k}": 0.5 + d for k, d in enumerate(differences)}
    return paired_over_subjects(ours, dict.fromkeys(ours, 0.5))


def by_hand(differences) -> float:
    """The share of all signs whose rank sum is at least as far from its middle."""
    ranks = rankdata(np.abs(differences).round(9))
    sums = [sum(r for r, s in zip(ranks, signs, strict=True) if s) for signs in
            product((0, 1), repeat=len(ranks))]  # fmt: skip
    middle = ranks.sum() / 2
    own = sum(r for r, d in zip(ranks, differences, strict=True) if d > 0)
    return float(np.mean([abs(s - middle) >= abs(own - middle) - 1e-9 for s in sums]))


@pytest.mark.parametrize(
    "differences",
    [[0.1, 0.2, 0.3, 0.4, 0.5], [0.1, -0.2, 0.3, -0.05, 0.25, 0.15], [0.1, 0.1, 0.1, -0.1],
     [0.02, -0.02, 0.04, 0.04, 0.06, -0.08, 0.1, 0.1]],
)  # fmt: skip
def test_few_subjects_are_tested_exactly_with_their_ties(differences):
    assert paired(differences)["p"] == pytest.approx(by_hand(differences), abs=1e-9)


def test_the_interval_is_that_of_students_t():
    drawn = np.random.default_rng(0).normal(0.02, 0.1, 36)
    found = ttest_1samp(drawn, 0).confidence_interval()
    np.testing.assert_allclose(paired(drawn)["interval"], [found.low, found.high], atol=1e-8)
    assert paired([0.3])["interval"] == [-1, 1]


def test_many_subjects_are_tested_as_scipy_does():
    drawn = np.random.default_rng(0).normal(0.02, 0.1, 36)
    wanted = wilcoxon(drawn, method="asymptotic").pvalue
    assert paired(drawn.tolist())["p"] == pytest.approx(wanted)


def test_a_level_subject_says_nothing():
    found = paired([0.0, 0.1, 0.2, 0.0, -0.3, 0.05])
    assert found["p"] == paired([0.1, 0.2, -0.3, 0.05])["p"]
    assert (found["better"], found["worse"], found["equal"]) == (3, 1, 2)
    assert found["mean"] == pytest.approx(0.05 / 6)


def test_without_a_difference_nothing_is_shown():
    assert paired([0.0, 0.0])["p"] == 1.0
    assert paired([0.0, 0.1])["p"] == 1.0 == by_hand([0.1])


def test_differences_that_differ_by_rounding_are_ties():
    ours = {"a": 0.3, "b": 0.4, "c": 0.6}
    theirs = {"a": 0.2, "b": 0.3, "c": 0.7}  # 0.1 in three roundings
    assert paired_over_subjects(ours, theirs)["p"] == by_hand([0.1, 0.1, -0.1])


def test_other_subjects_are_refused():
    with pytest.raises(ArgumentError, match=r"baseline is \['b'\]; expected the subjects a"):
        paired_over_subjects({"a": 1.0}, {"b": 1.0})
