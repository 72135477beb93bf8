"""Kill -9 at any moment of every ``fit``, then the same command with ``--resume``."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from faults import Case, Suite, Unavailable
from faults.small_runs import COMMANDS, SmallRuns, last_line, new_case, require_loadable, setup

FULL = 1000  # cases, 200 of each command
POLL = 0.001  # seconds
ANYTIME, BETWEEN, WITHIN = "anytime", "between system calls", "within a system call"
CALLS = ("openat", "write", "fsync", "rename", "unlink")


def cases(seed: int, share: float) -> Iterator[Case]:
    """Return kills of all commands in turn: 60 % at any time, 30 % in a write, 10 % by strace."""
    for i in range(max(len(COMMANDS), round(FULL * share))):
        draw = random.Random(f"kill {seed} {i}")
        task = tuple(COMMANDS)[i % len(COMMANDS)]
        kind = draw.choices((ANYTIME, BETWEEN, WITHIN), (6, 3, 1))[0]
        times = draw.choice((1, 1, 1, 2))
        yield Case(f"fit {task}", f"{task} {i} {kind}", partial(kill, task, kind, times, draw))


def kill(task: str, kind: str, times: int, draw: random.Random) -> None:
    """Kill a command, continue it, perhaps kill it again, and compare its run in the end."""
    runs, case = new_case(task)
    others: list[str] = []
    for _ in range(times):
        {ANYTIME: kill_anytime, BETWEEN: kill_between, WITHIN: kill_within}[kind](
            runs, task, case, others, draw
        )
        require_loadable(case)
        others = ["--resume"]
    runs.finish(task, case, *others)
    runs.require_same(task, case)


def kill_anytime(
    runs: SmallRuns, task: str, case: Path, others: list[str], draw: random.Random
) -> None:
    """Kill a process when it has used a random part of the processor time of a whole run.

    A process that ends before that is begun anew, with less time.
    """
    left = runs.reference(task).seconds * draw.random()
    while True:
        pid = runs.start(task, case, *others)
        while (used := processor_seconds(pid)) is not None and used < left:
            time.sleep(POLL)
        if used is not None:
            os.kill(pid, signal.SIGKILL)
        if (code := runs.server.wait(pid)) == -signal.SIGKILL:
            return
        assert code == 0, f"exit code {code}: {last_line(case)}"
        left *= 0.7
        if not others:
            shutil.rmtree(case / "run")


def kill_between(
    runs: SmallRuns, task: str, case: Path, others: list[str], draw: random.Random
) -> None:
    """Kill a process at one of the stages of one of the files that a whole run writes.

    A run that is faster than the reference may write fewer checkpoints and not reach the stage; it
    is begun anew, with another one.
    """
    places = runs.reference(task).places
    while True:
        place, number = places[int(draw.random() * len(places))]
        armed = {"REPRESENTER_FAILPOINT": f"{place}:{number}:kill"}
        code = runs.server.wait(runs.start(task, case, *others, environment=armed))
        if code == -signal.SIGKILL:
            return
        assert code == 0, f"exit code {code}: {last_line(case)}"
        if others:  # fewer files were left to write
            return
        shutil.rmtree(case / "run")


def kill_within(
    runs: SmallRuns, task: str, case: Path, others: list[str], draw: random.Random
) -> None:
    """Kill a process when it calls the system to write, by strace."""
    if shutil.which("strace") is None:
        raise Unavailable("strace is not installed")
    call, number = (
        draw.choice(CALLS),
        1 + int(0.2 * draw.random() * len(runs.reference(task).places)),
    )
    pid = runs.start(task, case, *others, faults=[["stop"]])
    while state(pid, "State") != "T":
        time.sleep(POLL)
    inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}"]
    tracer = subprocess.Popen(["strace", "-q", "-o", os.devnull, *inject, "-p", str(pid)])
    while state(pid, "TracerPid") == "0":
        if tracer.poll() is not None:
            os.kill(pid, signal.SIGKILL)
            runs.server.wait(pid)
            raise Unavailable("strace may not trace processes here")
        time.sleep(POLL)
    os.kill(pid, signal.SIGCONT)
    code = runs.server.wait(pid)
    tracer.wait(10)
    is_possible = code == 0  # fewer calls
    assert is_possible or code == -signal.SIGKILL, f"exit code {code}: {last_line(case)}"


def processor_seconds(pid: int) -> float | None:
    """Return the processor time that a process has used, or None if it ended."""
    if state(pid, "State") in (None, "Z"):
        return None
    try:
        return time.clock_gettime(~pid << 3 | 2)  # the clock of another process, by Linux
    except OSError:
        return None


def state(pid: int, field: str) -> str | None:
    """Return the first word of a field of the status of a process, or None if it ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next(line.split()[1] for line in lines if line.startswith(f"{field}:"))


SUITE = Suite(
    "Killed with -9 and continued with --resume: weights, predictions and metrics are those of an "
    "uninterrupted run to the bit, every checkpoint loads, no file is left over",
    cases,
    setup,
)
