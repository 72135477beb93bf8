"""Names from users at the terminal, closed streams, and paths that are not UTF-8."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import QUICK, write_table

COMMAND = f"{sys.executable} -m representer"


def shell(command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["bash", "-c", command], capture_output=True, check=False)


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_stream_that_is_closed_from_the_start_is_no_failure(closed):
    assert shell(f"{COMMAND} --version {closed}").returncode == 0


@pytest.mark.slow
def test_closed_streams_leave_a_complete_run(table, tmp_path):
    words = " ".join(QUICK)
    done = shell(f"{COMMAND} fit text {table} --out {tmp_path}/run {words} >&- 2>&-")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.slow
def test_a_reader_that_leaves_ends_the_command_quietly_with_a_complete_run(table, tmp_path):
    words = " ".join(QUICK)
    done = shell(
        f"{COMMAND} fit text {table} --out {tmp_path}/run {words} | head -c 1 >/dev/null;"
        " exit ${PIPESTATUS[0]}"
    )
    assert done.returncode in (0, 141)  # 141 if the reader was gone before the last line
    assert b"Traceback" not in done.stderr
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.parametrize("place", ["data", "out"])
def test_a_path_that_is_not_utf_8_is_refused_before_anything_is_written(
    run, table, tmp_path, place
):
    strange = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    if place == "data":
        table.rename(f"{strange}.csv")
        outcome = run("fit", "text", f"{strange}.csv", "--out", tmp_path / "run")
    else:
        outcome = run("fit", "text", table, "--out", strange)
    assert outcome.code == 2
    assert "is not valid UTF-8. Rename the file or folder." in outcome.error
    assert not strange.exists()
    assert not (tmp_path / "run").exists()


def test_names_with_escape_sequences_do_not_reach_the_terminal(run, tmp_path):
    data = write_table(tmp_path / "a\x1b[2J.csv")
    data.write_text(data.read_text().replace("sea\n", "se\x1b[31ma\n"))
    run_folder = tmp_path / "run"
    for outcome in (
        run("fit", "text", data, "--out", run_folder, *QUICK),
        run("evaluate", run_folder, data),
        run("explain", run_folder, data, "--limit", "2"),
        run("predict", run_folder, data, "--text", "\x1b[2J"),
        run("evaluate", run_folder, tmp_path / "b\x1b[2J.csv"),
    ):
        assert "\x1b" not in outcome.out + outcome.err


def test_cells_that_would_run_as_formulas_are_guarded_and_their_labels_known(run, tmp_path):
    data, out, run_folder = write_table(tmp_path / "a.csv"), tmp_path / "b.csv", tmp_path / "run"
    text = data.read_text().replace("sea\n", "=cmd()\n").replace("sky\n", "-ve\n")
    data.write_text(text.replace("id,", "@id,"))
    assert run("fit", "text", data, "--out", run_folder, *QUICK).code == 0
    assert run("predict", run_folder, data, "-o", out).code == 0
    with out.open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["'@id", "text", "label", "prediction", "probability_-ve", "probability_=cmd()"]
    assert {row[2] for row in rows} == {"'=cmd()", "'-ve"}
    assert {row[3] for row in rows} <= {"'=cmd()", "'-ve"}
    assert [row[0] for row in rows] == [str(k) for k in range(60)]
    before, after = (run("evaluate", run_folder, path) for path in (data, out))
    assert after.code == 0
    assert after.out == before.out.replace(str(data), str(out))
