"""The command itself: help without torch, names, exit codes, pipes."""

from __future__ import annotations

import csv
import gc
import io
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from cli.conftest import QUICK, write_table
from representer import __version__, cli
from representer.cli import main
from representer.cli.errors import CLOSED_PIPE, describe, did_you_mean, in_option_words
from representer.errors import Interrupted, RunFolderError, StorageError, say

PYTHON = [sys.executable, "-m", "representer"]


def test_help_lists_every_command_and_does_not_import_torch():
    code = (
        "import sys; from representer.cli.main import entry_point; entry_point(['--help']);"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, "torch was imported"
    assert all(f"  {name} " in done.stdout for name in main.COMMANDS)


def test_help_takes_less_than_half_a_second():
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)  # of the processor: others may use it
        subprocess.run([*PYTHON, "fit", "text", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert any(seconds() < 0.5 for _ in range(5))


def test_the_file_of_the_overview_is_that_of_the_commands(capsys: pytest.CaptureFixture[str]):
    own = {name: module for name, module in main.COMMANDS.items() if name.split()[-1] != "lists"}
    assert cli.OVERVIEW.read_text().rstrip("\n") == main._overview(own)
    assert cli.entry_point(["--help"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == main._overview(main.COMMANDS)


def test_a_task_of_an_installed_package_is_in_the_overview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    package = tmp_path / "lists-1.0.dist-info"
    package.mkdir()
    (package / "entry_points.txt").write_text("[representer.tasks]\nlists = lists:LISTS\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(main, "_overview", lambda names: "of all commands")
    assert cli.entry_point(["--help"]) == 0
    assert capsys.readouterr().out == "of all commands\n"


def test_the_version_is_printed(run):
    assert run("--version").out == f"representer {__version__}\n"


@pytest.mark.parametrize(("words", "is_short"), [([], True), (["--debug"], False)])
def test_a_warning_is_one_line_without_its_place_in_the_code(words, is_short, monkeypatch):
    texts = []

    def warned(_: list[str]) -> int:
        texts.append(warnings.formatwarning("a label is new", UserWarning, __file__, 1))
        return 0

    monkeypatch.setattr(main, "_run", warned)
    before, thresholds = warnings.formatwarning, gc.get_threshold()
    assert main.entry_point(["predict", *words]) == 0
    assert (texts == ["warning: a label is new\n"]) == is_short
    assert warnings.formatwarning is before
    assert gc.get_threshold() == thresholds


def test_no_command_prints_a_start(run):
    outcome = run()
    assert outcome.code == 0
    assert "representer fit reviews.csv" in outcome.out
    assert "All commands: representer --help" in outcome.out


def test_the_help_of_a_task_describes_what_is_used_most_and_names_the_rest(run):
    short, whole = (run("fit", "text", option).out for option in ("--help", "--help-all"))
    assert short.index("--text") < short.index("--label") < short.index("other options")
    assert "learning rate of Adam" not in short
    for group in ("data", "model", "training", "output"):
        assert f"\n  {group}:" in short
        assert f"\n{group}:" in whole
    assert "learning rate of Adam" in whole
    lines = [line.split() for line in whole.splitlines() if line.strip().startswith("--")]
    assert {words[0] for words in lines} <= set(short.split())


@pytest.mark.parametrize(("line", "typed", "expected"), [
    ("representer ex", "ex", ["explain", "export"]), ("representer fit te", "te", ["text"]),
    ("representer fit text --epo", "--epo", ["--epochs"]), ("representer nothing ", "", []),
])  # fmt: skip
def test_a_shell_completes_commands_tasks_and_options(run, monkeypatch, line, typed, expected):
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setattr(sys, "argv", ["representer", "completion", "representer", typed, "x"])
    assert run("completion").out.split() == expected
    monkeypatch.delenv("COMP_LINE")
    assert "complete -o default -C" in run("completion").out


def test_quiet_prints_neither_notes_nor_progress(run, monkeypatch, capsys):
    monkeypatch.setattr(main, "_run", lambda words: say("a note") or len(words))
    assert run("evaluate", "--quiet").err == ""
    assert run("evaluate").err == "a note\n"


@pytest.mark.parametrize(("word", "known", "meant"), [
    ("--learning-rate", ["--lr", "--learn-static-gates"], "--lr"),
    ("--output", ["--out", "--cutoffs"], "--out"),
    ("train", ["fit", "drift"], "fit"),
    ("--gamma", ["--data", "--lr"], None),
])  # fmt: skip
def test_did_you_mean_knows_words_of_the_same_meaning(word, known, meant):
    assert did_you_mean(word, known) == (f"Did you mean {meant!r}? " if meant else "")


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(words):
        raise error

    monkeypatch.setattr(main, "_run", broken)


@pytest.mark.parametrize(("error", "code", "line"), [
    (RuntimeError("two\nlines"), 70, "error: internal: RuntimeError: two lines (a bug"),
    (RunFolderError("runs/a is in use"), 73, "error: runs/a is in use"),
    (KeyboardInterrupt(), 130, "interrupted"),
    (Interrupted("by SIGTERM", 143), 143, "stopped: by SIGTERM"),
    (StorageError("a.csv", OSError(28, "No space left on device")), 2, "error: a.csv cannot"),
    (OSError(28, "No space left on device", "a.csv"), 2, "error: a.csv: the disk is full"),
    (OSError(5, "Input/output error", "a.csv"), 74, "error: a.csv: Input/output error"),
    (OSError(36, "File name too long", "a" * 5000), 2, "error: aaa"),
    (MemoryError(), 70, "error: out of memory. Lower --batch-size"),
    (RuntimeError("[enforce fail] can't allocate memory: you tried"), 70, "error: out of mem"),
    (RuntimeError("Storage size calculation overflowed with"), 70, "error: out of memory"),
])  # fmt: skip
def test_every_failure_is_one_line_and_an_exit_code(run, monkeypatch, error, code, line):
    fail_with(error, monkeypatch)
    outcome = run("cells")
    assert outcome.code == code
    assert outcome.err.startswith(line)
    assert outcome.err.count("\n") == 1


def test_debug_shows_the_traceback_too(run, monkeypatch):
    fail_with(RuntimeError("why"), monkeypatch)
    outcome = run("cells", "--debug")
    assert outcome.code == 70
    assert "Traceback" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("error: internal")


def test_a_reader_that_goes_away_is_no_failure_to_talk_about():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(
            [*PYTHON, "fit", "text", "--help"], stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (CLOSED_PIPE, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_one_line():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PYTHON, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "the disk is full" in done.stderr


def test_a_terminal_without_the_letters_of_the_equations_still_gets_the_table(monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main.entry_point(["cells"]) == 0
    terminal.flush()
    assert b"RKM-CIFG" in terminal.buffer.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("said", "shown"), [
    ("batch_size is 0; expected more.", "--batch-size is 0; expected more."),
    ("a.csv: none. Pass label= one of them.", "a.csv: none. Pass --label one of them."),
    ('Name it, for example text="a".', 'Name it, for example --text "a".'),
    ("Is it right? Otherwise lower min_length.", "Is it right? Otherwise lower --min-length."),
    ("there is no column 'batch_size'.", "there is no column 'batch_size'."),
    ("data is None.", "DATA is None."),
    ("other is 3 and header_row too.", "other is 3 and header_row too."),
])  # fmt: skip
def test_the_words_of_the_library_become_those_of_the_command_line(said, shown):
    names = {n: f"--{n.replace('_', '-')}" for n in ("batch_size", "label", "text", "min_length")}
    assert in_option_words(said, {**names, "data": "DATA"}) == shown


def test_an_error_of_storage_names_an_option_of_the_command():
    said = "a/report.html cannot be written: read-only file system. Choose another --out."
    assert in_option_words(said, {"out": "--out"}) == said
    assert in_option_words(said, {"output": "--output"}).endswith("Choose another --output.")
    assert in_option_words(said, {"run": "RUN"}).endswith("Choose another RUN, such as a copy.")


# Names from users at the terminal, closed streams, and paths that are not UTF-8.


COMMAND = f"{sys.executable} -m representer"


def shell(command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["bash", "-c", command], capture_output=True, check=False)


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_stream_that_is_closed_from_the_start_is_no_failure(closed):
    assert shell(f"{COMMAND} --version {closed}").returncode == 0


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


# ``fit ... --launch torchrun``.


FIT = ("fit", "text", "--demo", "--out", "run")


@pytest.fixture
def started(monkeypatch):
    """Record what would replace the process."""
    calls: list[tuple[list[str], dict[str, str]]] = []

    def execve(path: str, words: list[str], variables: dict[str, str]) -> None:
        calls.append((words, variables))
        raise SystemExit(0)

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return calls


def test_torchrun_gets_the_command_and_the_variables(run, started, monkeypatch):
    words = [*FIT, "--device", "cpu", "--launch", "torchrun", "--nproc", "3", "--max-restarts", "2"]
    monkeypatch.setattr(sys, "argv", ["representer", *words])
    with pytest.raises(SystemExit):
        run(*words)
    ((command, variables),) = started
    end = command.index("--")
    assert command[end:] == ["--", "representer", *words]
    assert command[1:end] == [
        "-m", "torch.distributed.run", "--nproc-per-node", "3", "--nnodes", "1",
        "--max-restarts", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "-m",
    ]  # fmt: skip
    assert variables["ACCELERATE_USE_CPU"] == "true"
    assert variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert int(variables["OMP_NUM_THREADS"]) == max(1, (os.cpu_count() or 1) // 3)


def test_several_machines_have_the_address_of_the_first(run, started, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    words = [*FIT, "--launch=torchrun", "--nnodes=2", "--rdzv-endpoint=host:29500"]
    with pytest.raises(SystemExit):
        run(*words)
    ((command, variables),) = started
    assert command[command.index("--rdzv-endpoint") + 1] == "host:29500"
    assert command[command.index("--nnodes") + 1] == "2"
    assert variables["OMP_NUM_THREADS"] == "5"


def test_a_process_of_torchrun_trains_and_continues_after_a_restart(run, started, monkeypatch):
    trained = []
    task = launch_task(monkeypatch, trained)
    words = ("fit", task, "--demo", "--out", "run", "--launch", "torchrun")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    for restarts in ("0", "1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", restarts)
        assert run(*words).code == 0
    assert [config.resume for config in trained] == [False, True]
    assert not started


def launch_task(monkeypatch, trained) -> str:
    """Replace the training of texts by an entry into a list."""
    from representer.options import task as task

    monkeypatch.setattr(task.Task, "function", lambda self, name: trained.append)
    return "text"


@pytest.mark.parametrize(("words", "message"), [
    (("--nproc", "2"), "--nproc is 2; expected nothing without --launch"),
    (("--max-restarts", "1"), "--max-restarts is 1; expected nothing without --launch"),
    (("--launch", "mpirun"), "--launch"),
    (("--launch", "torchrun", "--nproc", "0"), "--nproc is 0; expected 1 or more"),
    (("--launch", "torchrun", "--nnodes", "2"), "--rdzv-endpoint is None; expected HOST:PORT"),
    (("--launch", "torchrun", "--rdzv-endpoint", "a:1"), "expected nothing on one"),
])  # fmt: skip
def test_options_that_do_not_fit_together_are_refused(run, started, words, message):
    outcome = run(*FIT, *words)
    assert outcome.code == 2
    assert message in outcome.error
    assert not started


def test_the_end_of_another_process_is_not_called_a_bug():
    error = RuntimeError("[pytorch/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer")
    line, code = describe(error)
    assert line.startswith("error: another process of the training ended or does not answer")
    assert "bug" not in line
    assert code == 70
    assert "a bug" in describe(RuntimeError("something else"))[0]


def test_a_command_that_loads_says_so_at_once_on_a_terminal(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    shown = []
    monkeypatch.setattr(main, "_find_command", lambda words: shown.append(screen.getvalue()))
    for words in (["explain", "RUN"], ["explain", "RUN", "--quiet"], ["fit", "text", "--help"]):
        screen.seek(screen.truncate(0))
        main.entry_point(words)
    assert shown == ["loading ...\r", "", ""]
