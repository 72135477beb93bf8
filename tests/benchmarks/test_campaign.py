"""The driver of the fault campaign, with cases that pass, fail, are not available, and end it."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_each_case_has_one_outcome_and_a_second_start_tries_none_again(
    bench, tmp_path: Path
) -> None:
    campaign, faults = bench("campaign"), bench("faults")
    tries: list[str] = []

    def broken() -> None:
        raise AssertionError("a row | was lost")

    def unavailable() -> None:
        raise faults.Unavailable("needs strace")

    def case(name: str, end) -> object:
        def run() -> None:
            tries.append(name)
            end()

        return faults.Case("fit text", name, run)

    ends = {"good": lambda: None, "bad": broken, "absent": unavailable}

    def cases(seed: int, share: float):
        return (case(name, end) for name, end in ends.items())

    suite = faults.Suite("all must hold", cases)
    rows = tmp_path / "made-up.jsonl"
    campaign.write(rows, {"group": "fit text", "case": "good", "outcome": "started", "seconds": 0})
    with rows.open("a") as file:
        file.write('{"group": "fit te\n')  # cut off by a kill
    campaign.run(suite, rows, 0, 1.0)
    campaign.run(suite, rows, 0, 1.0)
    assert tries == ["good", "bad", "absent"]
    campaign.run(suite, rows, 0, 1.0, "bad")
    assert tries[3:] == ["bad"]
    held = {row["case"]: row["outcome"] for row in campaign.outcomes(rows)}
    assert held == {"good": "passed", "bad": "failed", "absent": "not available"}
    reasons = [row[4] for row in campaign.remarks(campaign.outcomes(rows))]
    assert reasons == ["AssertionError: a row \\| was lost", "needs strace"]


def test_a_suite_that_ended_replaces_its_figures_alone(bench, monkeypatch, tmp_path: Path) -> None:
    campaign, faults = bench("campaign"), bench("faults")
    made = {name: faults.Suite(f"All of {name}", lambda *_: iter(())) for name in ("first", "next")}
    monkeypatch.setattr(campaign, "suites", lambda: made)
    monkeypatch.setattr(campaign, "commit_of", lambda: commit[0])
    commit = ["0"]
    outcome = {"first": "failed", "next": "passed"}

    def apart(name: str, folder: Path, *_: object) -> None:
        row = {"group": "by", "case": name, "outcome": outcome[name], "reason": "", "seconds": 1.0}
        campaign.write(folder / f"{name}.jsonl", row)

    def page(*words: str) -> str:
        out, record = tmp_path / "page.md", tmp_path / "lines.jsonl"
        rest = ("--out", str(out), "--record", str(record), "--work", str(tmp_path))
        monkeypatch.setattr("sys.argv", ["campaign.py", *rest, *words])
        assert campaign.main() == int("failed" in outcome.values() and "--share" not in words)
        return out.read_text("utf-8")

    monkeypatch.setattr(campaign, "apart", apart)
    assert "2 cases tried, 1 passed" in page()
    outcome["first"] = "passed"
    again = page("--only", "first")
    assert "2 cases tried, 2 passed" in again
    assert "`first`" not in again  # the reason of the earlier line
    assert page("--only", "first", "--share", "0.5") == again
    assert page("--only") == again
    commit[0] = "1"
    shared = page("--only", "first", "--share", "0.5")
    assert "2 cases tried, 2 passed" in shared
    row = next(line for line in shared.splitlines() if line.startswith("| first | 0.5 | 1 | 1 | "))
    assert row.endswith(" | 1 |")
    page("--only", "first")
    assert "Shares" not in page("--only")


@pytest.mark.slow
def test_suites_name_their_cases_once_and_the_same_each_time(bench) -> None:
    found = bench("faults").suites()
    for name, suite in found.items():
        first, again = ([case.name for case in suite.cases(3, 0.05)] for _ in range(2))
        assert first == again, name
        assert first, name
        assert len(set(first)) == len(first), name


def test_an_unknown_suite_is_refused_with_those_that_exist(bench, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["campaign.py", "--only", "nothing"])
    with pytest.raises(SystemExit, match="2"):
        bench("campaign").main()
