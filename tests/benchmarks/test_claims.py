"""The claims of the papers: figures read from pages, intervals, and verdicts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

PAGE = """# Page

## Texts

| model | 1-gram, ours | 3-gram, ours |
|---|---:|---:|
| LSTM | 87.0 ± 0.50 (3 seeds), 9 steps | 89.0 ± 0.50 (3 seeds) |
| LSTM, gated | 88.0 ± 0.40 (3 seeds) | 91.0 ± 0.30 (3 seeds) |
| TF-IDF | 90.0 ± 0.10 (3 seeds) | 90.0 ± 0.10 (3 seeds) |

## Seeds

| network | seed 0 | seed 1 | seed 2 |
|---|---:|---:|---:|
| one | 1.0 | 2.0 | 4.0 |
| other | 2.0 | 3.5 | 5.0 |
| third | 2.0 | not run | not run |

## Rows

| network | seed | last |
|---|---:|---:|
| a learned unit (`kbrn`) | 0 | 99.0 |
| a learned unit (`kbrn`) | 1 | 98.0 |
| standard LSTM (`lstm`) | 1 | 92.0 |
| standard LSTM (`lstm`) | 0 | 91.0 |
| standard LSTM (`lstm`) | 2 | 10.0 |

## Signals

12 subjects, seeds 0, 1.

Does memory help? The A is behind the B (-1.8 points, p = 0.022).

## Rates

| T | 5 | 10 | rate in % |
|---|---:|---:|---:|
| `a` | 5 of 5 (20) | 4 of 5 (30) | 90 |
| `a-grown` | 4 of 5 (2,000) | 2 of 5 in 9 | 60 |

## Variation

| bits | ℓ1 | centers | seed | variation |
|---|---|---|---|---|
| 2 | 0 | 50 | 0 | 4.0 |
| 2 | 0.1 | 50 | 0 | 2.0 |
| 4 | 0 | 50 | 0 | 9.0 |
| 4 | 0.1 | 50 | 0 | 3.0 |
| 4 | 0 | 99 | 0 | 3.0 |
"""


@pytest.fixture
def figures(bench):
    return bench("claim_figures")


def test_seeds_are_paired_and_less_may_be_better(figures):
    found = figures.paired(PAGE, "Seeds", "one", "other", -1)
    gains = np.array([1.0, 1.5, 1.0])
    low, high = stats.t.interval(0.95, 2, gains.mean(), stats.sem(gains))
    assert found.difference == pytest.approx(gains.mean())
    assert (found.difference - found.half, found.difference + found.half) == pytest.approx(
        (low, high)
    )
    assert found.count == "3 seeds"
    assert figures.paired(PAGE, "Seeds", "one", "third").count == "1 seeds"


def test_cells_with_deviations_are_compared_by_welch(figures):
    column = "3-gram, ours"
    found = figures.welch(PAGE, "Texts", ("LSTM, gated", column), ("LSTM", column))
    rng = np.random.default_rng(0)
    samples = []
    for mean, deviation in ((91.0, 0.3), (89.0, 0.5)):
        draws = rng.normal(size=3)
        samples.append(mean + deviation * (draws - draws.mean()) / draws.std(ddof=1))
    expected = stats.ttest_ind(*samples, equal_var=False).confidence_interval(0.95)
    assert found.difference == pytest.approx(2.0)
    assert found.difference - found.half == pytest.approx(expected.low)


def test_columns_are_compared_over_cells_without_baselines(figures):
    found = figures.columns(PAGE, "Texts", "3-gram, ours", "1-gram, ours")
    assert (found.difference, found.count) == (pytest.approx(2.5), "2 cells")


def test_seeds_in_rows_are_paired(figures):
    found = figures.seed_rows(PAGE, "kbrn", "lstm", "last")
    assert (found.difference, found.count) == (pytest.approx(7.0), "2 seeds")
    assert found.half == pytest.approx(stats.t.ppf(0.975, 1) * np.std([8, 6], ddof=1) / 2**0.5)


def test_rates_and_variations_are_paired_by_problem(figures):
    found = figures.rates(PAGE, "a", "a-grown")
    assert found.difference == pytest.approx((20 + 40) / 2)
    assert found.count == "2 problems"
    found = figures.updates(PAGE, "a", "a-grown")
    assert (found.difference, found.count) == (pytest.approx(math.log(100)), "1 problems")
    found = figures.smoothing(PAGE)
    assert found.difference == pytest.approx((math.log(2) + math.log(3)) / 2)
    assert found.count == "2 pairs"


@pytest.mark.parametrize(
    ("difference", "margin", "verdict"),
    [
        (1.0, 0.0, "confirmed"), (-1.0, 0.0, "refuted"), (0.4, 0.0, "not decided"),
        (-0.4, 1.0, "confirmed"), (-0.4, 0.5, "not decided"), (-1.0, 5.0, "refuted"),
    ],
)  # fmt: skip
def test_a_verdict_is_that_of_the_interval(figures, difference, margin, verdict):
    assert figures.Finding(difference, 0.5, "3 seeds", "").cells(margin)[0] == verdict


def test_a_tested_question_has_the_verdict_of_its_p_value(figures):
    question = "Does memory help?"
    expected = ["refuted", "–", "-1.8 points, p = 0.022", "12 subjects"]
    assert figures.tested(PAGE, "Signals", question) == expected
    level = PAGE.replace("p = 0.022", "p = 0.22")
    assert figures.tested(level, "Signals", question)[0] == "not decided"
    ahead = PAGE.replace("(-1.8", "(+1.8")
    assert figures.tested(ahead, "Signals", question)[0] == "confirmed"


def test_the_page_is_what_the_command_writes(bench):
    claims = bench("claims")
    page = (Path(claims.RESULTS) / "claims.md").read_text("utf-8")
    for row in claims.judged(claims.RESULTS):
        assert f"| {' | '.join(row)} |" in page
