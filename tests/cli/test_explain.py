"""``explain``: what an answer was taken from, in the terminal and in the report."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from cli.conftest import QUICK, TINY, write_table
from page_checks import faults
from representer.cli.main import entry_point
from undrawn import undrawn

ALONE = ["--answer", "network"]


@pytest.fixture(scope="session")
def string_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the string kernel; tests only read it, or explain into it."""
    folder = tmp_path_factory.mktemp("string")
    words = ["--cell", "string-kernel", "--decay", "input", "--baselines", "none", *ALONE]
    data = write_table(folder / "table.csv")
    words = ["fit", "text", str(data), "--out", str(folder / "run"), *TINY, *words]
    with undrawn():
        assert entry_point(words) == 0
    return folder / "run"


@pytest.fixture(scope="session")
def network_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the default cell; tests only explain into it."""
    folder = tmp_path_factory.mktemp("network")
    words = [*TINY, *ALONE, "--baselines", "none"]
    data = write_table(folder / "table.csv")
    with undrawn():
        assert entry_point(["fit", "text", str(data), "--out", str(folder / "run"), *words]) == 0
    return folder / "run"


def marked_in(line: str) -> list[str]:
    return re.findall(r"\[(.*?)\]", line)


def test_a_string_kernel_shows_a_line_for_each_ngram_and_its_units_below(run, string_run, table):
    more = ("--by", "feature", "--inside")
    outcome = run("explain", string_run, table, "--limit", "3", "--top", "2", *more)
    assert outcome.code == 0, outcome.err
    documents = outcome.out.split("\n\n")
    assert len(documents) == 3
    for number, document in enumerate(documents):
        first, words, *lines = document.strip().splitlines()
        assert re.fullmatch(rf"line {number + 2}: (sea|sky) \(\d+ %\)", first)
        assert marked_in(words)
        assert re.match(r"  \d+ other n-grams +[+-]\d", lines[2])
        assert lines[4].startswith("  score")
        assert lines[5] == "  units of the network with the largest contributions:"
        assert re.fullmatch(r"    unit \d+ [+-][\d.]+, half-life .*, from", lines[6])
        assert re.match(r" +[+-][\d.]+  \w+", lines[7])


def test_commands_that_read_a_run_write_nothing_into_it(run, string_run, table, monkeypatch):
    """A run may lie on a disk that is read-only."""

    def content() -> dict[str, bytes]:
        return {str(one): one.read_bytes() for one in string_run.rglob("*") if one.is_file()}

    before = content()
    monkeypatch.setattr(os, "fsync", lambda descriptor: pytest.fail("a file is written"))
    for words in (("explain", "--limit", "1"), ("evaluate",), ("predict",)):
        assert run(words[0], string_run, table, *words[1:]).code == 0
    assert content() == before


def test_the_report_shows_them_too_and_keeps_them(run, string_run, table):
    run("explain", string_run, table, "--limit", "2", "--report")
    entries = json.loads((string_run / "explanations.json").read_text(encoding="utf-8"))
    page = (string_run / "report.html").read_text(encoding="utf-8")
    section = page[page.index(f'<h2 id="explained-predictions-{table.stem}') :]
    section = section[: section.index("<h2", 3)]
    assert section.startswith(f'<h2 id="explained-predictions-{table.stem}-csv">Explained pred')
    assert f"{table.name}</h2>" in section
    assert section.count("<mark") == sum(len(entry["words"]) for entry in entries)
    assert section.count('class="matched"') == sum(sum(entry["marked"]) for entry in entries)
    assert entries[0]["contributions"][0]["what"] in section
    assert section.count("<summary>Inside the network</summary>") == 2
    assert "Explained test examples" in page
    assert faults(page) == []
    assert run("report", string_run).code == 0
    assert (string_run / "report.html").read_text(encoding="utf-8") == page


def test_kernel_and_network_share_a_line_for_each_ngram(run, trained, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    words = ("--input", "wave tide wave", "--top", "3")
    outcome = run("explain", folder, *words, "--report", "--by", "feature")
    assert outcome.code == 0, outcome.err
    head, first = outcome.out.splitlines()[2:4]
    assert head.split() == ["contribution", "kernel", "network"]
    total, kernel, network = map(float, first.rstrip("+-").split()[-3:])
    assert total == pytest.approx(kernel + network, abs=1.6e-3)  # each is rounded
    (entry,) = json.loads((folder / "explanations.json").read_text())
    named = {one["what"]: one for one in entry["contributions"]}
    assert len(named) == 3
    assert named["wave"]["places"] == [[0], [2]]
    assert named["wave"]["kernel"] * named["wave"]["network"] != 0
    page = (folder / "report.html").read_text()
    assert "(2 places)" in page
    assert '<th class="n part">kernel</th><th class="n part">network</th>' in page


def test_words_are_shown_first_and_as_json_on_request(run, trained):
    words = ("explain", trained, "--input", "wave tide wave")
    shown = run(*words).out.splitlines()
    assert {line.split("  ")[1] for line in shown[3:6]} == {"wave [1]", "tide", "wave [3]"}
    assert "input gate" not in "".join(shown)
    (entry,) = json.loads(run(*words, "--json").out)
    assert [place["what"] for place in entry["by_place"]] == ["wave", "tide", "wave"]
    total = entry["constant"] + sum(place["contribution"] for place in entry["by_place"])
    assert total == pytest.approx(entry["score"], rel=1e-9)


def test_a_cell_with_a_memory_shows_its_ledger(run, network_run, table):
    outcome = run("explain", network_run, table, "--limit", "1", "--report", "--inside")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.strip().splitlines()
    assert "input gate" in lines[-6]
    assert "kept to the end" in (network_run / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("cell", ["string-kernel", "rkm-cifg"])
def test_several_layers_and_directions_are_explained_down_to_the_words(run, table, tmp_path, cell):
    words = ["--cell", cell, "--num-layers", "2", "--bidirectional"]
    assert run("fit", "text", table, "--out", tmp_path / "run", *QUICK, *words).code == 0
    more = ("--limit", "1", "--top", "2", "--report", "--inside")
    outcome = run("explain", tmp_path / "run", table, *more)
    assert outcome.code == 0, outcome.err
    assert "of layer 1 of 2, contributions propagated through the layers above" in outcome.out
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "Layer 1 of 2, with contributions propagated through the layers above" in page


def test_on_a_terminal_the_words_are_set_off_by_style(run, string_run, table, monkeypatch):
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda self: True)
    outcome = run("explain", string_run, table, "--limit", "1")
    assert "\x1b[30;48;2;" in outcome.out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("explain", string_run, table, "--limit", "1").out


def test_a_text_is_shown_as_text_in_the_report(run, string_run, tmp_path):
    data = tmp_path / "a.csv"
    data.write_text("text\n<b>wave</b> & salt\n\n")
    assert run("explain", string_run, data, "--report").code == 0
    page = (string_run / "report.html").read_text(encoding="utf-8")
    assert "&lt;</mark>" in page


def test_rows_without_words_are_skipped(run, string_run, tmp_path):
    data = tmp_path / "a.csv"
    data.write_text("text,note\n,1\nwave salt,2\n")
    outcome = run("explain", string_run, data)
    assert outcome.out.startswith("line 3: ")


@pytest.mark.parametrize(
    ("cell", "reason"),
    [("lstm", "The candidate passes through tanh"), ("torch-lstm", "the cell of the run is torch")],
)
def test_a_cell_that_is_no_sum_is_refused_in_one_line(run, table, tmp_path, cell, reason):
    words = ["--cell", cell, "--layer-norm", "false", "--epochs", "1", "--baselines", "none"]
    assert run("fit", "text", table, "--out", tmp_path / "run", *TINY, *words).code == 0
    outcome = run("explain", tmp_path / "run", table, "--report")
    assert outcome.code == 2
    assert reason in outcome.error
    assert not (tmp_path / "run/explanations.json").exists()
