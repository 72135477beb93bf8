"""The claims of the papers: figures read from pages, intervals, and verdicts."""

from __future__ import annotations

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
