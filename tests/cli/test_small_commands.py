"""``cells``, ``doctor``, ``generate`` and ``report``."""

from __future__ import annotations

import io
import json
import sys

from representer.cli import use
from representer.cli.main import entry_point
from representer.tasks import doctor, language
from representer.tasks.registry import TASKS
from undrawn import without_drawings


def test_cells_prints_the_counts_of_the_paper(run):
    outcome = run("cells", "--filter-length", "3")
    assert outcome.code == 0
    assert "1,440,000" in outcome.out
    assert "n = 3-gram filters" in outcome.out


def test_the_doctor_finds_this_machine_usable(run):
    outcome = run("doctor")
    assert outcome.code == 0
    assert outcome.out.rstrip().endswith("Everything needed works.")


def test_the_doctor_fails_where_a_cell_is_wrong(run, monkeypatch):
    monkeypatch.setattr(doctor, "TOLERANCE", -1.0)
    outcome = run("doctor")
    assert outcome.code == 1
    assert "Not usable yet: LSTM" in outcome.out


def test_the_doctor_prints_the_rows_of_the_table_as_json(run, monkeypatch):
    table = run("doctor").out.splitlines()
    outcome = run("doctor", "--json")
    assert outcome.code == 0
    data = json.loads(outcome.out)
    assert data["usable"] is True
    assert len(table) == len(data["findings"]) + 2  # an empty line and the summary
    for line, finding in zip(table, data["findings"], strict=False):
        assert finding["what"] in line
        assert line.lower().startswith(finding["status"])
        assert line.endswith(finding["detail"])
    monkeypatch.setattr(doctor, "TOLERANCE", -1.0)
    failing = run("doctor", "--json")
    assert (failing.code, json.loads(failing.out)["usable"]) == (1, False)


def test_generate_shows_every_token_as_soon_as_it_is_sampled(monkeypatch):
    events: list[str] = []

    class Recorder(io.StringIO):
        def write(self, text: str) -> int:
            events.append(text)
            return len(text)

        def flush(self) -> None:
            events.append("flush")

    def tokens(*arguments, **how):
        for token in ("b", "c"):
            assert events[-1] == "flush"
            yield token

    monkeypatch.setattr(language, "generate", tokens)
    monkeypatch.setattr(use, "task_of_run", lambda run, command: TASKS["language"])
    monkeypatch.setattr(sys, "stdout", Recorder())
    assert entry_point(["generate", "run", "--prompt", "a"]) == 0
    assert [event for event in events if event != "flush"] == ["a", "b", "c", "\n"]


def test_the_report_is_rewritten_identically(run, trained):
    page = trained / "report.html"
    before = without_drawings(page.read_text(encoding="utf-8"))
    outcome = run("report", trained)
    assert outcome.out.strip() == str(page)
    assert without_drawings(page.read_text(encoding="utf-8")) == before


def test_a_report_can_be_written_elsewhere_for_a_run_on_a_disk_that_is_read_only(
    run, trained, tmp_path
):
    page, before = tmp_path / "page.html", (trained / "report.html").stat().st_mtime_ns
    assert run("report", trained, "--out", page).out.strip() == str(page)
    expected = (trained / "report.html").read_text(encoding="utf-8")
    assert without_drawings(page.read_text(encoding="utf-8")) == without_drawings(expected)
    assert (trained / "report.html").stat().st_mtime_ns == before
