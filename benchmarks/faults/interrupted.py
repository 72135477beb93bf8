"""Commands that are killed, stopped by signals, or fail with the system, and are then continued.

Each ``fit`` of `faults.runs` is interrupted in a forked child; the same command with ``--resume``
must leave what an uninterrupted run leaves.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults import Case, Suite, Unavailable, count_of, patience
from faults.runs import (
    DATA,
    RUN,
    TASKS,
    SmallRuns,
    continued,
    last_line,
    log_of,
    new_case,
    output_of,
    require_loadable,
    setup,
)

POLL = 0.001  # seconds

# Kill -9 at any moment.

KILLS = 1000  # cases in full, 200 of each command
CALLS = ("openat", "write", "fsync", "rename", "unlink")
Kill = Callable[[SmallRuns, str, Path, list[str], random.Random], None]


def kills(seed: int, share: float) -> Iterator[Case]:
    """Return kills of all commands in turn: 60 % at any time, 30 % in a write, 10 % by strace."""
    for i in range(max(len(TASKS), round(KILLS * share))):
        draw = random.Random(f"kill {seed} {i}")
        task = TASKS[i % len(TASKS)]
        moment = draw.choices(tuple(MOMENTS), (6, 3, 1))[0]
        times = draw.choice((1, 1, 1, 2))
        yield Case(f"fit {task}", f"{task} {i} {moment}", partial(kill, task, moment, times, draw))


def kill(task: str, moment: str, times: int, draw: random.Random) -> None:
    """Kill a command, continue it, perhaps kill it again, and compare its run in the end."""
    runs, case = new_case(task)
    others: list[str] = []
    for _ in range(times):
        MOMENTS[moment](runs, task, case, others, draw)
        require_loadable(case)
        others = ["--resume"]
    runs.finish(task, case, *others)
    runs.require_same(task, case)


def is_killed(code: int, case: Path) -> bool:
    """Return True if a process was killed, False if it ended before that."""
    assert code in (0, -signal.SIGKILL), f"exit code {code}: {last_line(case)}"
    return code != 0


def anytime(runs: SmallRuns, task: str, case: Path, others: list[str], draw: random.Random) -> None:
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
        if is_killed(runs.server.wait(pid), case):
            return
        left *= 0.7
        if not others:
            shutil.rmtree(case / "run")


def between(runs: SmallRuns, task: str, case: Path, others: list[str], draw: random.Random) -> None:
    """Kill a process at one of the stages of one of the files that a whole run writes.

    A run that is faster than the reference may write fewer checkpoints and not reach the stage; it
    is begun anew, with another one.
    """
    places = runs.reference(task).places
    while True:
        place, number = places[int(draw.random() * len(places))]
        armed = {"REPRESENTER_FAILPOINT": f"{place}:{number}:kill"}
        if is_killed(runs.run(task, case, *others, environment=armed), case) or others:
            return  # when it is continued, fewer files may be left to write
        shutil.rmtree(case / "run")


def within(runs: SmallRuns, task: str, case: Path, others: list[str], draw: random.Random) -> None:
    """Kill a process when it calls the system to write, by strace."""
    if shutil.which("strace") is None:
        raise Unavailable("strace is not installed")
    call = draw.choice(CALLS)
    number = 1 + int(0.2 * draw.random() * len(runs.reference(task).places))
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
    is_killed(runs.server.wait(pid), case)
    tracer.wait(10)


MOMENTS: dict[str, Kill] = {
    "anytime": anytime, "between system calls": between, "within a system call": within,
}  # fmt: skip


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


# Signals in every phase.

ROUNDS = 4  # of all phases and signals, each with one of the commands
SECONDS = 5.0  # until a process must be gone
TRAINER, FOLDER = "representer.training.trainer:Trainer", "representer.storage.run:RunFolder"
PHASES = {  # the method in which a signal arrives, its first argument, and the number of its visits
    "reading data": ("open", "", 1),
    "opening the folder": (f"{FOLDER}.write_text", "config.yaml", 1),
    "training": (f"{TRAINER}._train_batch", "", 9),
    "validation": (f"{TRAINER}._add_row", "", 3),
    "the end of training": (f"{FOLDER}.write_tensors", "final.safetensors", 1),
    "kernel machine": (f"{FOLDER}.write_tensors", "kernel.safetensors", 1),
    "report": (f"{FOLDER}.write_json", "details.json", 1),
}
SIGNALS = {
    "SIGTERM": ([signal.SIGTERM], 143), "SIGINT": ([signal.SIGINT], 130),
    "SIGHUP": ([signal.SIGHUP], 129), "Ctrl-C twice": ([signal.SIGINT, signal.SIGINT], 130),
}  # fmt: skip


def signals(seed: int, share: float) -> Iterator[Case]:
    """Return each phase with each signal, and the commands in turn."""
    every = [(phase, name) for phase in PHASES for name in SIGNALS] * count_of(share, ROUNDS)
    for i, (phase, name) in enumerate(every):
        draw, task = random.Random(f"signals {seed} {i}"), TASKS[i % len(TASKS)]
        run = partial(stop, task, phase, name, draw)
        yield Case(phase, f"{task} {i} {phase}, {name}", run)


def stop(task: str, phase: str, name: str, draw: random.Random) -> None:
    """Stop a command by signals in a phase, continue it, and compare its run in the end."""
    (runs, case), (numbers, expected) = new_case(task), SIGNALS[name]
    place, argument, visits = PHASES[phase]
    argument = argument or (str(runs.folder / DATA[task].data) if place == "open" else "")
    delay, stamp = draw.choice((0.0, 0.0, 0.01 * draw.random())), case.with_suffix(".time")
    fault = [place, argument, draw.randint(1, visits), [int(n) for n in numbers], delay, str(stamp)]
    code = runs.run(task, case, faults=[["signal_at", *fault]])
    over, line = time.time(), last_line(case)
    assert stamp.exists(), "the phase was not reached"
    sent = float(stamp.read_text(encoding="utf-8").split()[-1])
    assert over - sent < patience(SECONDS), "it did not end in time"
    assert code == expected, f"exit code {code}, expected {expected}: {line}"
    assert "Traceback" not in output_of(case), line
    assert "--resume" in line or len(numbers) > 1, f"no word of how to continue: {line}"
    require_loadable(case)
    continued(task, case)


# Disks, locks, clocks, paths and streams that fail.

ERRORS = (2, 73, 74)  # exit codes of a command that could not write
ODD = ("with spaces", "λ", "new\nline", "-x", "a" * 250, "quote'\"", "$HOME", "%s{}")
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "no HOME": {"HOME": None},
    "a HOME that is missing": {"HOME": "/nowhere"},
    "a TMPDIR that is missing": {"TMPDIR": "/nowhere"},
}
LOCALES = ("C", "POSIX", "xx_BAD", "C.UTF-8")
DAY = 86400.0


def failures(seed: int, share: float) -> Iterator[Case]:
    """Return the cases of all kinds."""
    for group, full, run in (
        ("a full or faulty disk", 80, fail_disk), ("a quota", 20, limit),
        ("two runs in one folder", 20, race), ("a folder moved or copied", 16, relocate),
    ):  # fmt: skip
        for i in range(count_of(share, full)):
            task, draw = TASKS[i % len(TASKS)], random.Random(f"system {group} {seed} {i}")
            yield Case(group, f"{group}: {task} {i}", partial(run, task, draw))
    undisturbed = partial(train, "text")
    for group, name, call in (
        ("a full or faulty disk", "a small tmpfs", fill_tmpfs),
        ("streams", "/dev/full", partial(stream, "/dev/full", ERRORS)),
        ("streams", "a closed pipe", partial(stream, "", (141,))),
        ("streams", "closed by the shell", partial(run_apart, "exec >&-; ", {})),
        ("permissions", "a read-only folder", refuse_writing),
        ("permissions", "umask 077", partial(undisturbed, [["set_mask", 0o077]])),
        *(("clock", f"{sign:+} day", partial(undisturbed, [["jump_clock", sign * DAY]]))
          for sign in (-1, 1)),
        *(("locks", name, partial(refuse_locks, name)) for name in ("ENOLCK", "EOPNOTSUPP")),
        *(("paths", repr(odd)[:20], partial(undisturbed, [], odd)) for odd in ODD),
        *(("environment", name, partial(undisturbed, [], "", variables))
          for name, variables in ENVIRONMENTS.items()),
        *(("environment", f"LC_ALL={name}",
           partial(run_apart, "", {"LC_ALL": name, "PYTHONUTF8": "0"})) for name in LOCALES),
    ):  # fmt: skip
        yield Case(group, f"{group}: {name}", call)


def require_error(case: Path, code: int, expected: Sequence[int] = ERRORS) -> None:
    """Check that a command failed with one line and no traceback, and lost no checkpoint."""
    line = last_line(case)
    assert "Traceback" not in output_of(case), line
    assert code in expected, f"exit code {code}, expected one of {tuple(expected)}: {line}"
    assert "error: " in line or code == 141, f"no error: {line}"
    require_loadable(case)


def fail_disk(task: str, draw: random.Random) -> None:
    """Fail at one of the stages of one of the files that a run writes."""
    runs, case = new_case(task)
    place, visit = draw.choice(runs.reference(task).places)
    armed = {"REPRESENTER_FAILPOINT": f"{place}:{visit}:{draw.choice(('enospc', 'eio'))}"}
    code = runs.run(task, case, environment=armed)
    if place != "ckpt.pruned":  # a file too many is no error
        require_error(case, code)
    continued(task, case)


def limit(task: str, draw: random.Random) -> None:
    """Refuse files of more than some thousand bytes."""
    runs, case = new_case(task)
    fault = ["limit_files", draw.randrange(1000, 9000)]
    require_error(case, runs.run(task, case, faults=[fault]))
    continued(task, case)


def race(task: str, draw: random.Random) -> None:
    """Start a command twice at a time: one trains, the other is refused."""
    runs, case = new_case(task)
    moment = time.time() + 0.1
    starts = [moment, moment + draw.choice((0.0, 0.0, 0.2 * draw.random()))]
    pids = [runs.start(task, case, faults=[["wait_until", one]]) for one in starts]
    codes = sorted(runs.server.wait(pid) for pid in pids)
    assert codes == [0, 73], f"exit codes {codes}: {last_line(case)}"
    assert f"{RUN} is in use by " in output_of(case), last_line(case)
    assert "Traceback" not in output_of(case), last_line(case)
    continued(task, case)


def relocate(task: str, draw: random.Random) -> None:
    """Move the run folder while it is written, or copy it, and continue the moved or copied one."""
    runs, case = new_case(task)
    visit = draw.randrange(20, len(runs.reference(task).places))
    action, other = draw.choice(("move", "copy")), new_case()[1]
    code = runs.run(task, case, faults=[["relocate", action, RUN, str(other / RUN), visit]])
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
        require_error(case, runs.run("text", case))
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
    require_error(case, runs.run("text", case, faults=[["redirect_stdout", place]]), expected)
    continued("text", case)


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
    require_error(case, runs.run("text", case, faults=[["become_nobody"]]), (73,))
    assert not list(case.iterdir()), "something was written"


def refuse_locks(name: str) -> None:
    """Train where the file system has no locks: refused, and nothing is written."""
    runs, case = new_case()
    fault = ["refuse_locks", getattr(errno, name)]
    require_error(case, runs.run("text", case, faults=[fault]), (73,))
    assert [p.name for p in case.rglob("*") if p.is_file()] in ([], [".lock"]), "files were written"


def train(
    task: str, faults: list[Any], name: str = "", variables: dict[str, Any] | None = None
) -> None:
    """Train with something odd that must not matter."""
    runs, case = new_case(task)
    folder = case / name if name else case
    folder.mkdir(exist_ok=True)
    code = runs.server.run(
        log_of(case), folder=str(folder), words=[runs.words(task), runs.use(task)], faults=faults,
        environment=variables or {},
    )  # fmt: skip
    assert code == 0, f"exit code {code}: {last_line(case)}"
    runs.require_same(task, folder)


SUITES = {
    "kill": Suite(
        "Killed with -9 and continued with --resume: weights, predictions and metrics are those of "
        "an uninterrupted run to the bit, every checkpoint loads, no file is left over",
        kills,
        setup,
    ),
    "signals": Suite(
        "Stopped by a signal: gone within 5 seconds, exit code 143, 130 or 129, the way to "
        "continue in the last line, and continued to the result of an uninterrupted run",
        signals,
        setup,
    ),
    "system": Suite(
        "Failing disks, locks, clocks, paths and streams: one line and the right exit code, no "
        "checkpoint lost, no false success, and continued to the result of an undisturbed run",
        failures,
        setup,
    ),
}
