"""Disks, locks, clocks, paths and streams that fail while a command trains."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults import Case, Suite, Unavailable, patience, small_runs
from faults.small_runs import (
    COMMANDS,
    RUN,
    continued,
    last_line,
    log_of,
    new_case,
    require_loadable,
)

DISKS, LIMITS, RACES, MOVES = 80, 20, 20, 16  # cases in full
ERRORS = (2, 73, 74)  # exit codes of a command that could not write
ODD = ("with spaces", "λ", "new\nline", "-x", "a" * 250, "quote'\"", "$HOME", "%s{}")
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "no HOME": {"HOME": None},
    "a HOME that is missing": {"HOME": "/nowhere"},
    "a TMPDIR that is missing": {"TMPDIR": "/nowhere"},
}
LOCALES = ("C", "POSIX", "xx_BAD", "C.UTF-8")
DAY = 86400.0


def cases(seed: int, share: float) -> Iterator[Case]:
    """Return the cases of all kinds."""
    tasks = tuple(COMMANDS)

    def case(group: str, name: str, run: Any, *arguments: Any) -> Case:
        return Case(group, f"{group}: {name}", partial(run, *arguments))

    def numbered(group: str, full: int, run: Any) -> Iterator[Case]:
        for i in range(max(1, round(full * share))):
            task = tasks[i % len(tasks)]
            draw = random.Random(f"system {group} {seed} {i}")
            yield case(group, f"{task} {i}", run, task, draw)

    yield from numbered("a full or faulty disk", DISKS, fail_disk)
    yield from numbered("a quota", LIMITS, limit)
    yield from numbered("two runs in one folder", RACES, race)
    yield from numbered("a folder moved or copied", MOVES, relocate)
    yield case("a full or faulty disk", "a small tmpfs", fill_tmpfs)
    yield case("streams", "/dev/full", stream, "/dev/full", ERRORS)
    yield case("streams", "a closed pipe", stream, "", (141,))
    yield case("streams", "closed by the shell", close_stdout)
    yield case("permissions", "a read-only folder", refuse_writing)
    yield case("permissions", "umask 077", undisturbed, "text", [["set_mask", 0o077]])
    for sign in (-1, 1):
        fault = [["jump_clock", sign * DAY]]
        yield case("clock", f"{sign:+} day", undisturbed, "text", fault)
    for name in ("ENOLCK", "EOPNOTSUPP"):
        yield case("locks", name, refuse_locks, name)
    for odd in ODD:
        yield case("paths", repr(odd)[:20], undisturbed, "text", [], odd)
    for name, variables in ENVIRONMENTS.items():
        yield case("environment", name, undisturbed, "text", [], "", variables)
    for name in LOCALES:
        yield case("environment", f"LC_ALL={name}", use_locale, name)


def require_error(case: Path, code: int, expected: Sequence[int] = ERRORS) -> None:
    """Check that a command failed with one line and no traceback, and lost no checkpoint."""
    text, line = log_of(case).read_text(encoding="utf-8", errors="replace"), last_line(case)
    assert "Traceback" not in text, line
    assert code in expected, f"exit code {code}, expected one of {tuple(expected)}: {line}"
    assert "error: " in line or code == 141, f"no error: {line}"
    require_loadable(case)


def fail_disk(task: str, draw: random.Random) -> None:
    """Fail at one of the stages of one of the files that a run writes."""
    runs, case = new_case(task)
    places = runs.reference(task).places
    place, visit = draw.choice(places)
    armed = {"REPRESENTER_FAILPOINT": f"{place}:{visit}:{draw.choice(('enospc', 'eio'))}"}
    code = runs.server.wait(runs.start(task, case, environment=armed))
    if place != "ckpt.pruned":  # a file too many is no error
        require_error(case, code)
    continued(task, case)


def limit(task: str, draw: random.Random) -> None:
    """Refuse files of more than some thousand bytes."""
    runs, case = new_case(task)
    most = draw.randrange(1000, 9000)
    code = runs.server.wait(runs.start(task, case, faults=[["limit_files", most]]))
    require_error(case, code)
    continued(task, case)


def race(task: str, draw: random.Random) -> None:
    """Start a command twice at a time: one trains, the other is refused."""
    runs, case = new_case(task)
    moment = time.time() + 0.1
    starts = [moment, moment + draw.choice((0.0, 0.0, 0.2 * draw.random()))]
    pids = [runs.start(task, case, faults=[["wait_until", one]]) for one in starts]
    codes = sorted(runs.server.wait(pid) for pid in pids)
    text = log_of(case).read_text(encoding="utf-8")
    assert codes == [0, 73], f"exit codes {codes}: {last_line(case)}"
    assert f"{RUN} is in use by " in text, last_line(case)
    assert "Traceback" not in text, last_line(case)
    continued(task, case)


def relocate(task: str, draw: random.Random) -> None:
    """Move the run folder while it is written, or copy it, and continue the moved or copied one."""
    runs, case = new_case(task)
    visit = draw.randrange(20, len(runs.reference(task).places))
    action, other = draw.choice(("move", "copy")), new_case()[1]
    fault = ["relocate", action, RUN, str(other / RUN), visit]
    code = runs.server.wait(runs.start(task, case, faults=[fault]))
    if action == "move":
        require_error(case, code)
    else:
        assert code == 0, f"exit code {code}: {last_line(case)}"
        for one in (other / RUN).rglob(".lock"):
            one.unlink()
    require_loadable(other)
    continued(task, other)


def fill_tmpfs() -> None:
    """Train on a file system of 64 KiB, and continue when it is larger."""
    runs, case = new_case("text")
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(case)]
    if os.getuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        raise Unavailable("a tmpfs cannot be mounted here")
    try:
        code = runs.server.wait(runs.start("text", case))
        require_error(case, code)
        subprocess.run(["mount", "-o", "remount,size=16m", str(case)], check=True)
        runs.finish("text", case, "--resume")
        copy = new_case()[1]
        shutil.copytree(case, copy, dirs_exist_ok=True)
    finally:
        subprocess.run(["umount", str(case)], check=True)
    runs.require_same("text", copy)


def stream(place: str, expected: Sequence[int]) -> None:
    """Write to a stream that refuses."""
    runs, case = new_case("text")
    code = runs.server.wait(runs.start("text", case, faults=[["redirect_stdout", place]]))
    require_error(case, code, expected)
    continued("text", case)


def close_stdout() -> None:
    """Start a process without stdout."""
    run_apart("exec >&-; ", {})


def use_locale(name: str) -> None:
    """Start a process with a locale."""
    run_apart("", {"LC_ALL": name, "PYTHONUTF8": "0"})


def run_apart(prefix: str, variables: dict[str, str]) -> None:
    """Run a command in a process of its own, to its end, and compare its run."""
    runs, case = new_case("text")
    shell = ["sh", "-c", f'{prefix}exec "$@"', "sh", sys.executable, "-m", "representer"]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with log_of(case).open("w", encoding="utf-8") as log:
        code = subprocess.run(
            [*shell, *runs.words("text")], cwd=case, env={**os.environ, **threads, **variables},
            stdout=log, stderr=log, timeout=patience(120), check=False,
        ).returncode  # fmt: skip
    assert code == 0, f"exit code {code}: {last_line(case)}"
    continued("text", case)


def refuse_writing() -> None:
    """Train in a folder of another user."""
    if os.getuid():
        raise Unavailable("needs root, to become another user")
    runs, case = new_case("text")
    case.chmod(0o755)
    code = runs.server.wait(runs.start("text", case, faults=[["become_nobody"]]))
    require_error(case, code, (73,))
    assert not list(case.iterdir()), "something was written"


def refuse_locks(name: str) -> None:
    """Train where the file system has no locks: refused, and nothing is written."""
    runs, case = new_case()
    fault = ["refuse_locks", getattr(errno, name)]
    code = runs.server.wait(runs.start("text", case, faults=[fault]))
    require_error(case, code, (73,))
    assert [p.name for p in case.rglob("*") if p.is_file()] in ([], [".lock"]), "files were written"


def undisturbed(
    task: str, faults: list[Any], name: str = "", variables: dict[str, Any] | None = None
) -> None:
    """Train with something odd that must not matter."""
    runs, case = new_case(task)
    own = case / name if name else case
    own.mkdir(exist_ok=True)
    words = runs.words(task)
    use = ["predict", RUN, str(runs.folder / COMMANDS[task].data), "--output", "predicted.csv"]
    code = runs.server.run(
        log_of(case), folder=str(own), words=[words, use], faults=faults,
        environment=variables or {},
    )  # fmt: skip
    assert code == 0, f"exit code {code}: {last_line(case)}"
    runs.require_same(task, own)


SUITE = Suite(
    "Failing disks, locks, clocks, paths and streams: one line and the right exit code, no "
    "checkpoint lost, no false success, and continued to the result of an undisturbed run",
    cases,
    small_runs.setup,
)
