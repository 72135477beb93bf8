"""The driver of the fault campaign, with cases that pass, fail, are not available, and end it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from representer.errors import StorageError
from representer.ops import core


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
    commit[0] = "2"
    page("--only", "first")  # a whole suite on the day of a share, which it replaces
    assert "Shares" not in page("--only")


def test_an_unknown_suite_is_refused_with_those_that_exist(bench, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["campaign.py", "--only", "nothing"])
    with pytest.raises(SystemExit, match="2"):
        bench("campaign").main()


# The suites of the fault campaign: a sample of each, and what their checks see.


NEEDS_CORE = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
OF_OPERATORS = {
    "operators": ("gated_scan-cpp-{}-float32-strided", "kbrn_scan-cpp-{}-empty",
                  "rkm-strides-{}", "product-strides-{}", "far-sequences-{}"),
    "long_sequences": ("1-multiply-no-last-given-0-identity-0.5-torch.float32",),
}  # fmt: skip


@NEEDS_CORE
@pytest.mark.parametrize("name", OF_OPERATORS)
def test_cases_of_operators_hold(bench, failures, name: str):
    cases = {case.name: case for case in bench(f"faults.{name}").SUITES[name].cases(0, 1.0)}
    assert failures(cases[one.format(core.USABLE[0])] for one in OF_OPERATORS[name]) == []


@NEEDS_CORE
def test_a_wrong_gradient_is_noticed(bench, monkeypatch):
    operators = bench("faults.operators")
    monkeypatch.setattr(operators, "evaluated", lambda *given: {"result 0": torch.zeros(1, 1, 1)})
    with pytest.raises(AssertionError, match="result 0"):
        operators.matches(operators.OPS["gated_scan"], "reference", torch.float64, "contiguous")


def test_an_answer_of_another_form_or_status_is_seen(bench, monkeypatch):
    suite = bench("faults.servers")
    monkeypatch.setitem(suite._ANSWERS, "text", b"{}")
    monkeypatch.setitem(suite._VALID, "text", "good")
    monkeypatch.setattr(suite, "request", lambda *words: (200, b"{}"))
    suite.require("text", 200, b"{}", is_wrong=False)
    suite.require("text", 422, b'{"error": "x"}', is_wrong=True)
    for status, answer in ((500, b"{}"), (200, b"{}"), (404, b'{"detail": "x"}')):
        with pytest.raises(AssertionError):
            suite.require("text", status, answer, is_wrong=True)


def test_lost_units_and_markup_in_names_are_seen(bench, monkeypatch):
    suite = bench("faults.written_results")
    suite.interrupt(0.5, "killed")
    suite.interrupt(0.5, "full disk")
    suite.mark("a comparison", "[a](http://x.org)")
    monkeypatch.setattr("representer.tasks.comparison.markdown", str)
    with pytest.raises(AssertionError, match="<a href"):
        suite.mark("a comparison", "[a](http://x.org)")

    def appended(path: Path, data: bytes) -> None:
        try:
            with path.open("ab", buffering=0) as file:
                for byte in data:
                    file.write(bytes([byte]))
        except OSError as error:
            raise StorageError(path, error) from error

    monkeypatch.setattr("representer.storage.atomic.append", appended)
    with pytest.raises(AssertionError, match="bytes of a line are left"):
        suite.interrupt(0.5, "full disk")
