"""The timer of the benchmarks, and the rules by which a goal is met: from times written by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from representer.ops import core


def test_every_candidate_runs_once_a_round_and_a_slow_one_in_a_few(bench):
    timing: ModuleType = bench("timing")
    seconds, now = {"ours": 1.0, "theirs": 3.0, "loop": 50.0}, [0.0]

    def taking(name: str):
        def run() -> None:
            now[0] += seconds[name]

        return run

    candidates = [timing.Candidate(name, taking(name), name == "loop") for name in seconds]
    rounds = timing.interleave(candidates, lambda: now[0], 10, 3)
    counts = {name: len(taken) for name, taken in rounds.seconds.items()}
    assert counts == {"ours": 10, "theirs": 10, "loop": 3}
    assert rounds.ratio("theirs", "ours").median == 3
    assert rounds.ratio("loop", "ours") == timing.Spread(50, 50, 50)


def test_a_ratio_is_taken_within_each_round(bench):
    timing: ModuleType = bench("timing")
    ours, theirs = {0: 1.0, 1: 2.0, 2: 4.0}, {0: 2.0, 1: 4.0, 2: 8.0, 3: 100.0}
    ratio = timing.Rounds({"ours": ours, "theirs": theirs}).ratio("theirs", "ours")
    assert ratio == timing.Spread(2, 2, 2)


def test_a_goal_of_a_gpu_is_the_lowest_ratio_of_its_cases(bench):
    goal, *_ = bench("gpu_cases").GOALS
    assert goal.ratios([]) == []

    def row(layer: str, median: float, size: tuple[int, ...], mode: str) -> dict[str, Any]:
        return {
            "section": goal.section, "layer": layer, "median": median, "p20": 0.0, "p80": 0.0,
            "size": size, "mode": mode, "clock": goal.clock, "dtype": "bfloat16",
        }  # fmt: skip

    medium, long, short = (128, 64, 300, 300), (1024, 16, 650, 650), (35, 20, 650, 650)
    rows = []
    for size, theirs in ((medium, 120.0), (long, 90.0), (short, 1.0)):
        rows += [row(goal.baseline, theirs, size, goal.mode), row(goal.ours, 10.0, size, goal.mode)]
    rows.append(row(goal.ours, 999.0, medium, "forward"))
    assert goal.ratios(rows[:2]) == [12.0]
    assert min(goal.ratios(rows)) == 9.0
    page = bench("gpu").page
    assert "| 9.00 (2): missed |" in page(rows)
    assert "| 12.00 (1): met |" in page(rows[:2])


def test_a_new_page_of_the_gpu_keeps_what_other_commands_wrote(bench, tmp_path: Path):
    gpu = bench("gpu")
    published = (Path(__file__).parents[2] / "docs/results/gpu.md").read_text(encoding="utf-8")
    others, earlier = gpu.kept_of(published)
    assert [text.splitlines()[1][:10] for text in others] == ["## Launche", "## Compile"]
    assert earlier.startswith("\n## Earlier: an H200")
    (page := tmp_path / "gpu.md").write_text(published, encoding="utf-8")
    for _ in range(2):
        assert gpu.main(["--page", str(page)]) == 0
        assert gpu.kept_of(page.read_text("utf-8")) == (others, earlier.rstrip() + "\n")


def test_the_published_page_of_the_gpu_has_every_goal(bench):
    gpu = bench("gpu")
    published = (Path(__file__).parents[2] / "docs/results/gpu.md").read_text(encoding="utf-8")
    rows = [line.rpartition(" | ")[0] for line in gpu.page([]).splitlines()
            if "| not measured |" in line]  # fmt: skip
    assert len(rows) == len(gpu.GOALS)
    assert [row for row in rows if f"{row} | " not in published] == []


@pytest.mark.parametrize(("seconds", "verdict"), [(2.0, "met"), (1.4, "missed")])
def test_a_goal_of_a_cpu_stands_beside_an_earlier_page_and_its_bound(
    bench, tmp_path: Path, seconds: float, verdict: str
):
    goals, timing, machine, report = map(bench, ("goals", "timing", "machine", "report"))
    goal = goals.Goal("words", "forward", "RKM-LSTM", "nn.LSTM", 1.5)
    limits = machine.Limits(dict.fromkeys(core.USABLE or ("none",), 1e9), {})

    def table(seconds: float, before: Path | None) -> str:
        rounds = timing.Rounds({"nn.LSTM": {0: seconds}, "RKM-LSTM": {0: 1.0}})
        measured = {("words", "forward"): goals.Measured(rounds, {"RKM-LSTM": 5e8})}
        return report.goals_table([goal], goals.Results(limits, measured), before)

    page = tmp_path / "earlier.md"
    page.write_text(f"# A page\n\n{table(3.0, None)}\n\n## Another table\n", encoding="utf-8")
    row = table(seconds, page).splitlines()[-1]
    measured = f"{seconds:.2f} ({seconds:.2f} – {seconds:.2f})"
    bound = f"{2 * seconds:.2f}"  # 5e8 operations, at a peak of 1e9
    assert row.endswith(f"| ≥ 1.50 | 3.00 (3.00 – 3.00) | {measured} | {bound} | {verdict} |")
    page.write_text("# Not such a page\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="there is no table of goals"):
        goals.earlier(page)


def test_a_wrong_kernel_is_not_timed(bench):
    import torch

    verify = bench("verify")
    expected = [torch.ones(3)]
    verify.compare("a layer", [torch.ones(3) * (1 + 1e-6)], expected)
    with pytest.raises(SystemExit, match=r"a layer is off by .*: not timed"):
        verify.compare("a layer", [torch.ones(3) * 1.001], expected)


def test_options_are_typed_by_their_defaults_and_figures_are_kept(bench, monkeypatch, tmp_path):
    words = ["script.py", "--data", "folder", "--work", str(tmp_path), "--draws", "3", "--quick"]
    monkeypatch.setattr(sys, "argv", words)
    options = {"data": (Path, ""), "draws": (1, ""), "rate": (0.5, ""), "quick": (False, "")}
    chosen = bench("report").options("About.", is_kept=True, **options)
    assert (chosen.data, chosen.draws, chosen.rate) == (Path("folder"), 3, 0.5)
    assert (chosen.quick, chosen.out) == (True, None)
    assert [chosen.kept("a run", lambda k=k: [k]) for k in range(2)] == [[0], [0]]
    assert chosen.kept("another", list, is_asked=False) is None
    assert bench("machine").command().startswith("python script.py --data DIR --work ")


def test_means_and_paired_differences_have_the_interval_of_student(bench):
    report = bench("report")
    assert report.mean_of([2.0], 1) == "2.0"
    assert report.mean_of([2, 3, 2], 2, "+") == "+2.33 ± 1.43"  # 4.303 * 0.577 / 3^½
    assert report.apart([3, 4, 5], [1, 1, 3], 1) == ("+2.3", "+0.9 to +3.8")
    assert report.apart([3], [1], 1) == ("+2.0", "–")


@pytest.mark.parametrize("half", ['{"seed": 1', '{"seed": 1, "tested": {"accuracy": 0.5}'])
def test_finished_trainings_are_continued_after_a_line_that_was_not_written_to_its_end(
    bench, half: str, tmp_path: Path
):
    (path := tmp_path / "runs.jsonl").write_text(f'{{"seed": 0}}\n{half}')
    Finished = bench("report").Finished
    Finished(path).add({"seed": 2})
    assert Finished(path).lines == [{"seed": 0}, {"seed": 2}]


def test_a_method_is_compared_with_each_other_one_split_by_split(bench):
    first, second = (np.array([[score, 9.0] for score in own]) for own in ((3, 4, 5), (1, 1, 3)))
    rows = bench("report").against({"a set": {"ours": first, "other": second}}, "ours", 1)
    assert rows == [["a set", "other", "+2.3", "+0.9 to +3.8"]]


def test_code_of_another_interpreter_reads_arrays_and_returns_one(bench):
    code = "result = given['x'] + float(str(given['text']))"
    result = bench("report").elsewhere(sys.executable, code, x=np.arange(3), text="0.5")
    assert result.tolist() == [0.5, 1.5, 2.5]
