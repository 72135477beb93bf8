"""The claims of the papers: figures of lines and pages, intervals, and verdicts."""

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
"""


@pytest.fixture
def figures(bench):
    return bench("claim_figures")


def line(variant: str, seed: int, value: float | None, planned: int = 3, **more) -> dict:
    fixed = {"recipe": "r", "steps": planned, "paper": 100, "smoke": False}
    return fixed | {"variant": variant, "seed": seed, "value": value, "planned": planned, **more}


def test_seeds_are_paired_and_less_may_be_better(figures):
    values = {"one": (1.0, 2.0, 4.0), "other": (2.0, 3.5, 5.0)}
    lines = figures.Lines(line(v, s, x) for v, xs in values.items() for s, x in enumerate(xs))
    found = figures.paired(lines, "r", "one", "other", -1)
    gains = np.array([1.0, 1.5, 1.0])
    low, high = stats.t.interval(0.95, 2, gains.mean(), stats.sem(gains))
    assert found.difference == pytest.approx(gains.mean())
    assert (found.difference - found.half, found.difference + found.half) == pytest.approx(
        (low, high)
    )
    assert (found.count, len(found.lines)) == ("3 seeds", 6)
    assert found.figures == "2.333 and 3.5"


def test_means_over_sets_are_paired_by_the_seeds_that_all_have(figures):
    values = {
        "a-one": (1, 2, 4, 9),
        "a-other": (0, 2, 1, 9),
        "b-one": (3, 3, 3, 9),
        "b-other": (1, 4, 2),
    }
    lines = figures.Lines(line(v, s, x) for v, xs in values.items() for s, x in enumerate(xs))
    finding = figures.over_seeds(lines, "r", [("a-one", "a-other"), ("b-one", "b-other")])
    gains = np.array([1.5, -0.5, 2.0])  # of seeds 0, 1, 2
    assert finding.difference == pytest.approx(gains.mean())
    assert finding.half == pytest.approx(stats.t.ppf(0.975, 2) * stats.sem(gains))
    assert (finding.count, len(finding.lines)) == ("3 seeds, means of 2 sets", 12)


def test_the_longest_runs_with_three_seeds_of_both_are_compared(figures):
    short = [line(v, seed, 1.0) for v in ("one", "other") for seed in range(4)]
    long = [line("one", seed, 2.0, 30) for seed in range(3)]
    few = [line("other", seed, 3.0, 30) for seed in range(2)]
    smoke = [line("other", 2, 3.0, 30) | {"smoke": True}, line("other", 3, None, 30)]
    lines = figures.Lines([*short, *long, *few, *smoke])
    assert {x["planned"] for x in figures.paired(lines, "r", "one", "other").lines} == {3}
    lines = figures.Lines([*short, *long, *few, line("other", 2, 3.0, 30)])
    found = figures.paired(lines, "r", "one", "other")
    assert (found.difference, found.count) == (-1.0, "3 seeds")


def test_the_figures_of_a_claim_come_with_share_hours_machine_and_commit(figures):
    known = {"hours": 0.25, "machine": "A chip", "commit": "0123456789ab"}
    pages = [["[p](p.md)", "`x`", "1.5, 6 runs", "B chip, torch 2, AVX2"]]
    lines = [line("one", 0, 1.0, **known), line("one", 1, 1.0, 30, **known)]
    assert figures.runs_cells(lines, pages) == ["3 to 30 %", "0.50", "A chip", "01234567"]
    unknown = dict.fromkeys(known) | {"paper": None}
    rough = "1.5, all runs of the page"
    assert figures.runs_cells([line("one", 0, 1.0, **unknown)], pages) == [
        "–", rough, "B chip", "–",
    ]  # fmt: skip
    assert figures.runs_cells([], pages) == ["–", rough, "B chip", "–"]


def test_the_rate_of_solved_runs_counts_those_without_a_figure(figures):
    problems = [("xor-T5", (5, 7)), ("xor-T9", (None, 9)), ("or-T5", (5, None))]
    lines = figures.Lines(
        line(f"paper/{problem}/{cell}", 0, value) | {"recipe": "kbrn-long-term"}
        for problem, values in problems
        for cell, value in zip(("kbrn", "lstm"), values, strict=True)
    )
    assert figures.solved_rates(lines, "kbrn", "lstm").figures == "66.7 and 66.7 % of the runs"
    found = figures.solved_updates(lines, "kbrn", "lstm")
    assert (found.count, found.difference) == ("1 problems", pytest.approx(np.log(7 / 5)))


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


def test_every_page_behind_a_claim_has_its_hours_and_machine(bench):
    text = bench("result_pages").text_of(Path(__file__).parents[2] / "docs/results", "claims")
    rows = re.findall(r"^\| \[(\S+)\]\(\S+\) \| `(.+?)` \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    assert len(rows) >= 15
    for name, command, hours, machine in rows:
        assert command.startswith("representer "), name
        assert re.match(r"\d+\.\d+, |\d\.\d, beside", hours), name
        assert "torch" in machine, name


@pytest.mark.parametrize(("difference", "margin", "verdict"), [
    (1.0, 0.0, "confirmed"), (-1.0, 0.0, "refuted"), (0.4, 0.0, "not decided"),
    (-0.4, 1.0, "confirmed"), (-0.4, 0.5, "not decided"), (-1.0, 5.0, "confirmed"),
    (-0.8, 1.0, "not decided"), (-1.6, 1.0, "refuted"),
])  # fmt: skip
def test_a_verdict_is_that_of_the_interval(figures, difference, margin, verdict):
    finding = figures.Finding(difference, 0.5, "3 seeds", "")
    assert finding.cells(margin)[0] == verdict


@pytest.mark.parametrize(("cell", "is_inside"), [
    ("-0.467 ± 0.38", False), ("+0.4 ± 0.1", True), ("+13 ± 12.98", True), ("-2 ± 2", False),
    ("-0.7 points, -3.0 to +0.6, p = 0.6", True), ("-0.7 points, -3.0 to +0.4, p = 0.6", False),
    ("+0.6 points, p = 0.593", None), ("–", None),
])  # fmt: skip
def test_what_the_paper_prints_is_inside_an_interval_or_not(figures, cell, is_inside):
    assert figures.inside(0.5, cell) is is_inside


@pytest.mark.parametrize("ends", ["", "-3.0 to +1.6, "])
def test_a_question_is_answered_by_its_p_value(figures, ends):
    answer = f"The RKM is level with the X (-0.7 points, {ends}p = 0.610) and behind the Y"
    answer += f" (-2.0 points, {ends}p = 0.003)."
    text = f"## A\n\nDoes it? no\n\n## B set\n\n36 subjects\n\nDoes it? {answer}"
    cells = figures.tested(text, "B", "Does it?", "X")
    assert cells == ["not decided", "–", f"-0.7 points, {ends}p = 0.610", "36 subjects"]
    assert figures.tested(text, "B", "Does it?", "Y")[0] == "refuted"


def test_a_claim_has_the_difference_that_the_paper_prints(bench):
    claims = bench("claims")
    papers = {claim.text: claim.paper for claim in claims.CLAIMS}
    # typed again from the papers' tables; less is better on the Penn Treebank and for molecules
    for text, figure in {
        "Memory helps: RKM-LSTM ahead of the Gated CNN": 92.28 - 91.78,
        "The same on DBpedia, Yahoo! Answers and Yelp": (0.23 + 1.06 + 2.13) / 3,
        "The same on EEGs of mental arithmetic": 79.02 - 76.02,
        "The RKM-LSTM is ahead of the LSTM on Penn Treebank": 58.9 - 58.2,
        "The same with two classes": 89.9 - 88.6,
        "The WL network without gates ahead of the neural fingerprint": 0.1409 - 0.1058,
        "Gated decay ahead of learned decay": None,
    }.items():
        assert papers[text] == (figure if figure is None else pytest.approx(figure)), text


def test_the_page_is_what_the_command_writes(bench):
    claims = bench("claims")
    page = bench("result_pages").text_of(claims.RESULTS, "claims")
    for row in claims.judged(claims.RESULTS):
        assert f"| {' | '.join(row)} |" in page


@pytest.mark.parametrize(("steps", "verdict"), [
    ([16, None, 64], "refuted"), ([16, None, None], "not decided"), ([16, 5], "not decided"),
    ([None] * 71, "not decided"), ([None] * 72, "confirmed"),  # 1 - 0.025^(1/72) = 0.0499
])  # fmt: skip
def test_a_training_stays_finite_by_the_exact_interval_of_diverging_seeds(figures, steps, verdict):
    # of 3 seeds 2: the lower end p has 1 - (1 - p)^3 - 3 p (1 - p)^2 = 0.025, p = 0.094
    runs = [line("rkm-lstm", s, x) for s, x in enumerate(steps)] + [line("lstm", 0, None)]
    lines = figures.Lines([run | {"recipe": "rkm-divergence"} for run in runs])
    assert figures.finite(lines, "rkm-lstm", "lstm").cells()[0] == verdict
