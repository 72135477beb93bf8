"""The server that forks trainings to be killed; see training_worker.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).with_name("training_worker.py")


class TrainingServer:
    """Starts children, waits for them, and knows where each one's output went."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, WORKER, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        )
        self._running: set[int] = set()

    def start(self, job: str, out: Path, **options: Any) -> int:
        """Start a job and return its process number."""
        log = out.with_name(f"{out.name}.log")
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
