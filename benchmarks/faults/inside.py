"""Faults within the process of a command: called in a fork before the command runs."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any


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


def signal_at(
    place: str, argument: str, visit: int, numbers: list[int], delay: float, stamp: str
) -> None:
    """Send signals to this process when a method is called.

    Args:
        place: The method, as ``module:Class.method``, or ``open`` for the opening of a file.
        argument: A visit counts if this is its first argument; any if empty.
        visit: The number of the visit, from 1.
        numbers: The signals, sent 50 ms apart.
        delay: Seconds after the visit.
        stamp: Receives the time at which the last signal was sent.
    """
    left = [visit]

    def send() -> None:
        for number in numbers:
            time.sleep(delay if number is numbers[0] else 0.05)
            Path(stamp).write_text(str(time.time()), encoding="utf-8")
            os.kill(os.getpid(), number)

    def count(first: Any) -> None:
        if not argument or first == argument:
            left[0] -= 1
            if left[0] == 0:
                threading.Thread(target=send, daemon=True).start()
                time.sleep(0.001)

    if place == "open":
        sys.addaudithook(lambda event, details: count(details[0]) if event == "open" else None)
        return
    module, path = place.split(":")
    owner, name = path.split(".")
    kind = getattr(importlib.import_module(module), owner)
    method = getattr(kind, name)

    def visited(self: Any, *arguments: Any, **named: Any) -> Any:
        count(next(iter(arguments), None))
        return method(self, *arguments, **named)

    setattr(kind, name, visited)
