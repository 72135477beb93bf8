"""Damaged and hostile run folders: what every command that reads one makes of them.

A case is a copy of a tiny run with one or two attacks; the attacker may leave the manifest, remake
it, or delete it. A forked child runs one command on it.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
import uvicorn

from faults import Case, Suite, temporary_folder
from faults.forked import HANG, Outcome, forked
from faults.run_attacks import CANARY, attacked
from faults.tiny_runs import JOINT, STOPPED, TASKS, make_runs
from representer.cli.main import entry_point
from representer.serving.model_process import ModelProcess

SECONDS = 60
ALLOWED = (0, 2, 73, 74)
EACH = 1000  # cases of a task
IMPORTED = (  # once here, not in each child
    "representer.serving", "representer.hub", "representer.report",
    "representer.report.pictures", "representer.report.pictures",
)  # fmt: skip
COMPARED = ("predict", "evaluate", "generate")  # whose output must be that of the untouched run
READ = ["predict", "predict", "evaluate", "explain", "report", "serve", "export", "resume"]
COMMANDS = {
    **dict.fromkeys(TASKS, READ),
    "language": [*READ, "generate"],
    JOINT: ["predict", "evaluate", "serve", "export"],
}


@dataclass(frozen=True)
class Target:
    """A run to attack, its data, and what the commands leave of the untouched run."""

    task: str
    run: Path
    data: Path
    outputs: dict[str, str] = field(default_factory=dict)

    def words(self, command: str, run: Path, out: Path) -> list[str]:
        """Return the words of a command."""
        data = str(self.data)
        if self.task == JOINT and command in ("predict", "evaluate"):
            label = ["--label", "label"] if command == "evaluate" else []
            return [command, str(run), data, "--text", "text", *label]
        if command == "resume":  # with the options that the run says it had
            return ["fit", self.task, "--config", str(self.run / "config.yaml"), data,
                    "--out", str(run), "--resume"]  # fmt: skip
        rest = {
            "evaluate": [data], "predict": [data], "explain": [data, "--limit", "1"],
            "generate": ["-n", "5"], "serve": ["--port", "0"],
            "export": ["--to", "hub", "--out", str(out)],
        }  # fmt: skip
        return [command, str(run), *rest.get(command, [])]


_PLACE: list[Path] = []
_TARGETS: dict[tuple[str, bool], Target] = {}  # by task, and whether it was stopped


def setup(tasks: Sequence[str] = (*TASKS, JOINT)) -> None:
    """Train the runs, once, and note what each command leaves of them."""
    if _PLACE:
        return
    for name in IMPORTED:
        importlib.import_module(name)
    torch.set_num_threads(1)
    _PLACE.append(temporary_folder())
    for task, run, data in make_runs(_PLACE[0] / "runs", tasks):
        _TARGETS[task, run.name.endswith(STOPPED)] = Target(task, run, data)
    for (task, is_stopped), target in _TARGETS.items():
        for command in {c for c in COMMANDS[task] if (c == "resume") == is_stopped}:
            copy, out = _place("run"), _PLACE[0] / "place" / "out"
            shutil.copytree(target.run, copy)
            ended = _run(target, command, copy, out)
            assert ended.code == 0, f"{task} {command}: {ended.err}"
            assert not ended.touched, f"{task} {command}: {ended.touched}"
            target.outputs[command] = _left(command, ended, copy)


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield cases of each task in turn; a case depends on the seed, its task and number alone."""
    for number in range(max(1, round(EACH * share))):
        for task, commands in COMMANDS.items():
            draw = random.Random(f"{seed} {task} {number}")
            command = draw.choice(commands)
            yield Case(command, f"{task} {number:04}", partial(_attempt, task, command, draw))


def _place(name: str) -> Path:
    """Return a path in an empty folder for one case."""
    place = _PLACE[0] / "place"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place / name


def _attempt(task: str, command: str, draw: random.Random) -> None:
    target = _TARGETS[task, command == "resume"]
    run = _place("run")
    outside, out = run.parent / "outside", run.parent / "out"
    shutil.copytree(target.run, run)
    (outside / "folder").mkdir(parents=True)
    for name in ("precious.txt", "a", "folder/step-000000001.ckpt"):
        (outside / name).write_text("precious", encoding="utf-8")
    done, is_remade = attacked(run, outside, draw)
    before, data = _digest(outside), target.data.read_bytes()
    ended = _run(target, command, run, out, (outside, run.parent / "bait"))
    about = f"{command} after {done}: {ended.last}"
    assert not (outside / CANARY).exists(), f"code was executed: {about}"
    assert not ended.touched, f"{ended.touched[0]}: {about}"
    assert _digest(outside) == before, f"bytes outside changed: {about}"
    assert target.data.read_bytes() == data, f"the data changed: {about}"
    assert ended.code != HANG, f"no end within {SECONDS} s: {about}"
    assert ended.code in ALLOWED, f"exit code {ended.code}: {about}"
    if ended.code != 0:
        lines = sum(line.startswith("error:") for line in ended.err.splitlines())
        assert lines == 1, f"{lines} lines with an error: {about}"
    elif not is_remade and "older version" not in ended.err:
        is_same = _left(command, ended, run) == target.outputs[command]
        assert is_same, f"another output without a word: {about}"


def _run(
    target: Target, command: str, run: Path, out: Path, forbidden: Sequence[Path] = ()
) -> Outcome:
    words = target.words(command, run, out)

    def call() -> int:
        np.seterr(all="ignore")
        if command == "serve":  # the model is loaded here, where it is watched, and nothing waits
            ModelProcess.start = lambda self: self.about.update(self._make().describe())
            uvicorn.Server.run = lambda self, sockets: sockets[0].close()
        return entry_point(words)

    return forked(call, _PLACE[0], seconds=SECONDS, forbidden=forbidden)


def _left(command: str, ended: Outcome, run: Path) -> str:
    """Return what must not depend on the damage: the output, or the weights of a resumed run."""
    if command == "resume":
        return hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()
    return ended.out.replace(str(run), "RUN") if command in COMPARED else ""


def _digest(folder: Path) -> dict[str, str]:
    """Return a digest of everything below a folder."""
    return {
        os.fspath(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file() else "folder" for path in sorted(folder.rglob("*"))
    }  # fmt: skip


SUITE = Suite(
    "A run folder was damaged or replaced by an attacker: one clear line or what it held, "
    "no code run, nothing touched outside, at most 1 GiB",
    cases,
    setup,
)
