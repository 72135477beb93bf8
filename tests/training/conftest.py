"""The server that forks trainings to be killed; see training_worker.py."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from representer.storage import checkpoint
from representer.storage.checkpoint import flatten

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from faults.processes import Server  # pyright: ignore[reportMissingImports]

FILES = ("final.safetensors", "model.safetensors", "metrics.jsonl", "metrics.csv")
WORKER = Path(__file__).with_name("training_worker.py")


class TrainingServer(Server):
    """Starts children that train, each with a log beside its run folder."""

    def start(self, job: str, out: Path, **options: Any) -> int:
        """Start a job and return its process number."""
        log = Path(options.pop("log", out.with_name(f"{out.name}.log")))
        return super().start(log, job=job, out=str(out), **options)

    def run(self, job: str, out: Path, **options: Any) -> int:
        """Run a job to its end."""
        return self.wait(self.start(job, out, **options))


@pytest.fixture(scope="session")
def server() -> Iterator[TrainingServer]:
    """Children that train."""
    server = TrainingServer(WORKER, "serve")
    yield server
    server.close()


@pytest.fixture(scope="session")
def digests() -> Callable[[Path], dict[str, str]]:
    """A function of a run folder: all that must not depend on interruptions."""
    return _digests


@dataclass(frozen=True)
class Uninterrupted:
    """A run without interruptions: what it leaves, and how long it takes."""

    folder: Path
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
    return Uninterrupted(folder / "run", _digests(folder / "run"), seconds)


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
