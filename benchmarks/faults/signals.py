"""SIGTERM, SIGINT, SIGHUP and a double Ctrl-C in every phase of every ``fit``."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from functools import partial

from faults import Case, Suite, patience
from faults.small_runs import (
    COMMANDS,
    continued,
    last_line,
    log_of,
    new_case,
    require_loadable,
    setup,
)

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


def cases(seed: int, share: float) -> Iterator[Case]:
    """Return each phase with each signal, and the commands in turn."""
    tasks, i = tuple(COMMANDS), 0
    for _ in range(max(1, round(ROUNDS * share))):
        for phase in PHASES:
            for name in SIGNALS:
                draw, task = random.Random(f"signals {seed} {i}"), tasks[i % len(tasks)]
                run = partial(stop, task, phase, name, draw)
                yield Case(phase, f"{task} {i} {phase}, {name}", run)
                i += 1


def stop(task: str, phase: str, name: str, draw: random.Random) -> None:
    """Stop a command by signals in a phase, continue it, and compare its run in the end."""
    (runs, case), (numbers, expected) = new_case(task), SIGNALS[name]
    place, argument, visits = PHASES[phase]
    argument = argument or (str(runs.folder / COMMANDS[task].data) if place == "open" else "")
    delay, stamp = draw.choice((0.0, 0.0, 0.01 * draw.random())), case.with_suffix(".time")
    fault = [place, argument, draw.randint(1, visits), [int(n) for n in numbers], delay, str(stamp)]
    code = runs.server.wait(runs.start(task, case, faults=[["signal_at", *fault]]))
    over, line = time.time(), last_line(case)
    assert stamp.exists(), "the phase was not reached"
    sent = float(stamp.read_text(encoding="utf-8").split()[-1])
    assert over - sent < patience(SECONDS), "it did not end in time"
    assert code == expected, f"exit code {code}, expected {expected}: {line}"
    assert "Traceback" not in log_of(case).read_text(encoding="utf-8"), line
    assert "--resume" in line or len(numbers) > 1, f"no word of how to continue: {line}"
    require_loadable(case)
    continued(task, case)


SUITE = Suite(
    "Stopped by a signal: gone within 5 seconds, exit code 143, 130 or 129, the way to continue in "
    "the last line, and continued to the result of an uninterrupted run",
    cases,
    setup,
)
