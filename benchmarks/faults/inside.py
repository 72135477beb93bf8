"""Faults within the process of a command: called in a fork before the command runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def record_places(file: str) -> None:
    """Write the name of each failpoint that is reached to a file, in order."""
    from representer.storage import atomic
    from representer.storage.checkpoint import series

    path = Path(file)

    def record(name: str) -> None:
        with path.open("a", encoding="utf-8") as names:
            names.write(f"{name}\n")

    atomic.failpoint = series.failpoint = record


def stop() -> None:
    """Stop until a tracer is attached and the process is continued."""
    os.kill(os.getpid(), signal.SIGSTOP)
