"""The claims of the papers: figures read from pages, intervals, and verdicts."""

from __future__ import annotations

import math
import re
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

| network | seed 0 | seed 1 | seed 2 | mean |
|---|---:|---:|---:|---:|
| one | 1.0 | 2.0 | 4.0 | 2.33 |
| other | 2.0 | 3.5 | 5.0 | 3.50 |
| third | 2.0 | not run | not run | 2.00 |

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

Does memory help? A is behind the B (b) (-1.8 points, p = 0.022) and as the C (+2 points, p = 1).

## Rates

| T | 5 | 10 | rate in % |
|---|---:|---:|---:|
| `a` | 5 of 5 (20) | 4 of 5 (30) | 90 |
| `a-grown` | 4 of 5 (2,000) | 2 of 5 in 9 | 60 |

## Outcomes

| cell | settings | seed | outcome |
|---|---|---|---|
| A | 9 units | 0 | diverged: the loss is nan at step 16 |
| A | 9 units | 1 | diverged: the loss is nan at step 1,017 |
| A | 9 units, layer norm | 1 | finite |
| B | 9 units | 0 | finite |
| B | 9 units | 1 | diverged: the loss is nan at step 7 |

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
    with pytest.raises(KeyError):
        figures.paired(PAGE, "Seeds", "one", "other", first="by seed")


def test_seeds_of_several_pages_count_once_and_a_seed_needs_both_rows(figures):
    more = """## Seeds

| network | seed 2 | seed 3 | seed 5 | mean |
|---|---:|---:|---:|---:|
| one | 9.0 | 3.0 | running | 6.00 |
| other | 0.0 | 6.0 | 7.0 | 4.33 |
"""
    found = figures.paired(f"{PAGE}{figures.NEXT_PAGE}\n{more}", "Seeds", "one", "other", -1)
    gains = np.array([1.0, 1.5, 1.0, 3.0])
    assert (found.count, found.difference) == ("4 seeds", pytest.approx(gains.mean()))
    assert found.half == pytest.approx(stats.sem(gains) * stats.t.ppf(0.975, 3))
    assert found.figures == "2.5 and 4.125"


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


def test_rows_are_compared_over_the_sets_of_a_page(figures):
    table = "\n\n## {} (a part)\n\n| model | ours |\n|---|---|\n| A | {} |\n| B | {} |"
    rows = ("x", "90.5 ± 1", "88 (87 – 89)"), ("y", "80", "81.5"), ("z", "not run", "70")
    found = figures.sets("".join(table.format(*row) for row in rows), "A", "B", "ours")
    assert (found.difference, found.count) == (pytest.approx(0.5), "2 data sets")
    assert found.half == pytest.approx(12.706 * 2, rel=1e-3)  # Student's t with one freedom
    assert found.figures == "85.25 and 84.75"


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
    for bits, ratio in (("2", 2), ("4", 3)):
        found = figures.smoothing(PAGE, bits)
        assert (found.difference, found.count) == (pytest.approx(math.log(ratio)), "1 pairs")


def test_a_training_that_diverges_in_every_seed_refutes_the_claim(figures):
    found = [figures.finite(PAGE, *key) for key in (("A", "9 units"), ("B", "9 units"))]
    assert found[0] == ["refuted", "2 of 2 diverged, at step 16, 1,017", "–", "2 seeds"]
    assert found[1] == ["not decided", "1 of 2 diverged, at step 7", "–", "2 seeds"]
    other = figures.finite(PAGE, "A", "9 units, layer norm")
    assert other == ["not decided", "0 of 1 diverged", "–", "1 seed"]


def test_a_page_names_the_runs_behind_it(bench):
    run_of = bench("claim_figures").run_of
    made = "# T\n\nMade by `representer reproduce x --seeds 0` with torch 2, threads: 1, AVX2.\n"
    command = "`representer reproduce x --seeds 0`"
    assert run_of(made) == [command, "not recorded", "torch 2, threads: 1, AVX2"]
    timed = (
        "Training: 6 runs in 1.50 hours on A chip, the last on 2026-11-25; 2 of them interrupted"
    )
    expected = [command, "1.50, 6 runs, 2 resumed", "A chip, torch 2, threads: 1, AVX2, 2026-11-25"]
    assert run_of(f"{made}{timed} and resumed.\n") == expected
    stopped = run_of(made + "\nThe command was stopped in its third seed, so some have two.")
    assert stopped[1] == "not recorded; the command was stopped in its third seed"
    shown = (
        "Made by\n\n```sh\nrepresenter fit x \\\n  --seed 0\n```\n\nwith torch 2, AVX2; 7 steps, "
    )
    rough = run_of(f"{shown}2.1 hours on a machine that did other work beside.\n")
    assert rough == ["`representer fit x --seed 0`", "2.1, beside other work", "torch 2, AVX2"]
    with pytest.raises(ValueError, match="a page without its command"):
        run_of("# T")


def test_every_page_behind_a_claim_has_its_hours_and_machine():
    text = (Path(__file__).parents[2] / "docs/results/claims.md").read_text("utf-8")
    rows = re.findall(r"^\| \[(\S+)\]\(\S+\) \| `(.+?)` \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    assert len(rows) >= 15
    for name, command, hours, machine in rows:
        assert command.startswith("representer "), name
        assert re.match(r"\d+\.\d+, |\d\.\d, beside", hours), name
        assert "torch" in machine, name


@pytest.mark.parametrize(
    ("difference", "margin", "verdict"),
    [
        (1.0, 0.0, "confirmed"), (-1.0, 0.0, "refuted"), (0.4, 0.0, "not decided"),
        (-0.4, 1.0, "confirmed"), (-0.4, 0.5, "not decided"), (-1.0, 5.0, "confirmed"),
        (-0.8, 1.0, "not decided"), (-1.6, 1.0, "refuted"),
    ],
)  # fmt: skip
def test_a_verdict_is_that_of_the_interval(figures, difference, margin, verdict):
    assert figures.Finding(difference, 0.5, "3 seeds", "").cells(margin)[0] == verdict


def test_rounding_does_not_hide_which_side_of_zero_an_interval_is_on(figures):
    assert figures.Finding(13.0, 12.98, "", "").cells()[2] == "+13 ± 12.98"
    assert figures.Finding(-3.0, 3.004, "", "").cells()[2] == "-3 ± 3"
    assert figures.Finding(3.0, 2.0, "", "").cells()[2] == "+3 ± 2"


def test_a_tested_question_has_the_verdict_of_its_p_value(figures):
    question = "Does memory help?"
    expected = ["refuted", "–", "-1.8 points, p = 0.022", "12 subjects"]
    assert figures.tested(PAGE, "Signals", question, "B (b)") == expected
    expected = ["not decided", "–", "+2 points, p = 1", "12 subjects"]
    assert figures.tested(PAGE, "Signals", question, "C") == expected
    ahead = PAGE.replace("(-1.8", "(+1.8")
    assert figures.tested(ahead, "Signals", question, "B (b)")[0] == "confirmed"
    with pytest.raises(AssertionError, match="Signals: B"):
        figures.tested(PAGE, "Signals", question, "B")


def test_the_page_is_what_the_command_writes(bench):
    claims = bench("claims")
    page = (Path(claims.RESULTS) / "claims.md").read_text("utf-8")
    for row in claims.judged(claims.RESULTS):
        assert f"| {' | '.join(row)} |" in page


def test_an_order_of_one_seed_is_shown_and_decides_nothing(bench) -> None:
    claims = bench("claims")

    def page(*values: float) -> str:
        names = claims.GATED, claims.LEARNED, claims.FIXED, claims.NONE
        rows = [
            f"| {name}, small | {value} | {value} |"
            for name, value in zip(names, values, strict=True)
        ]
        head = ["## Penn Treebank", "", "| model | seed 0 | mean |", "|---|---:|---:|"]
        return "\n" + "\n".join([*head, *rows]) + "\n"

    verdict, shown, *_ = claims.ordered(page(1.0, 2.0, 3.0, 4.0))
    assert (verdict, shown) == ("not testable", "1.00 < 2.00 < 3.00 < 4.00, as in the paper")
    assert claims.ordered(page(1.0, 2.0, 4.0, 3.0))[1].endswith("another order")
