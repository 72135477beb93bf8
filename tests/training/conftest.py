"""The server that forks trainings to be killed; see training_worker.py."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from representer.storage import checkpoint
from representer.storage.checkpoint.tree import flatten

FILES = ("final.safetensors", "model.safetensors", "metrics.jsonl", "metrics.csv")
WORKER = Path(__file__).with_name("training_worker.py")


class TrainingServer:
    """Starts children, waits for them, and knows where each one's output went."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, WORKER, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._running: set[int] = set()

    def start(self, job: str, out: Path, **options: Any) -> int:
        """Start a job and return its process number."""
        log = out.with_name(f"{out.name}.log")  # an option of this name takes another
        pid = self._ask({"job": job, "out": str(out), "log": str(log), **options})
        self._running.add(pid)
        return pid

    def wait(self, pid: int) -> int:
        """Return a child's exit code; minus the signal that killed it."""
        code = self._ask({"wait": pid})
        self._running.discard(pid)
        return code

    def run(self, job: str, out: Path, **options: Any) -> int:
        """Run a job to its end."""
        return self.wait(self.start(job, out, **options))

    def close(self) -> None:
        """End every child, and then the server."""
        for pid in list(self._running):
            os.kill(pid, signal.SIGKILL)
            self.wait(pid)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _ask(self, request: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@pytest.fixture(scope="session")
def server() -> Iterator[TrainingServer]:
    """Children that train."""
    server = TrainingServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def digests() -> Callable[[Path], dict[str, str]]:
    """A function of a run folder: all that must not depend on interruptions."""
    return _digests


@dataclass(frozen=True)
class Uninterrupted:
    """A run without interruptions: what it leaves, and how long it takes."""

    digests: dict[str, str]
    seconds: float


@pytest.fixture(scope="session")
def uninterrupted(
    server: TrainingServer, tmp_path_factory: pytest.TempPathFactory
) -> Uninterrupted:
    """The uninterrupted run that every interrupted run is compared with."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    assert server.run("train", folder / "warm-up") == 0, (folder / "warm-up.log").read_text()
    started = time.monotonic()
    assert server.run("train", folder / "run") == 0
    seconds = time.monotonic() - started
    assert _digests(folder / "run") == _digests(folder / "warm-up")
    return Uninterrupted(_digests(folder / "run"), seconds)


def _digests(out: Path) -> dict[str, str]:
    """Return what an interrupted run must share with one that was not."""
    found = checkpoint.latest(out / "checkpoints", report=pytest.fail)
    assert found is not None
    progress = dict(found.state["progress"])
    for of_time in ("seconds", "timings"):
        del progress[of_time]
    states: dict[str, Any] = {**found.state, "progress": progress, "step": found.step}
    return {
        **{name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in FILES},
        **{name: _digest(state) for name, state in states.items()},
    }


def _digest(value: Any) -> str:
    """Return a digest of a nested value, to the bit."""
    tree, tensors = flatten(value)
    text = repr(tree) + repr([(t.dtype, t.shape, t.cpu().numpy().tobytes()) for t in tensors])
    return hashlib.sha256(text.encode()).hexdigest()
