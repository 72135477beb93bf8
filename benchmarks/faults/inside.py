"""Faults within the process of a command: called in a fork before the command runs."""

from __future__ import annotations

import importlib
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def at_failpoints(call: Callable[[str], None]) -> None:
    """Call a function with the name of each failpoint that is reached."""
    from representer.storage import atomic
    from representer.storage import checkpoint as series

    atomic.failpoint = series.failpoint = call


def record_places(file: str) -> None:
    """Write the name of each failpoint that is reached to a file, in order."""

    def record(name: str) -> None:
        with Path(file).open("a", encoding="utf-8") as names:
            names.write(f"{name}\n")

    at_failpoints(record)


def relocate(action: str, source: str, target: str, visit: int) -> None:
    """Move or copy a folder when a number of failpoints have been passed."""
    left = [visit]

    def count(name: str) -> None:
        left[0] -= 1
        if left[0] == 0 and action == "move":
            Path(source).rename(target)
        elif left[0] == 0:
            shutil.copytree(source, target)

    at_failpoints(count)


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
            with Path(stamp).open("a", encoding="utf-8") as file:  # the process may end at once
                file.write(f"{time.time()}\n")
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
    visited_class = getattr(importlib.import_module(module), owner)
    method = getattr(visited_class, name)

    def visited(self: Any, *arguments: Any, **named: Any) -> Any:
        count(next(iter(arguments), None))
        return method(self, *arguments, **named)

    setattr(visited_class, name, visited)


def limit_files(most: int) -> None:
    """Refuse files of more bytes, as a quota does."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def become_nobody() -> None:
    """Give up the right of root to write everywhere."""
    os.setegid(65534)
    os.seteuid(65534)


set_mask = os.umask  # the mode bits that new files lack


def refuse_locks(code: int) -> None:
    """Let ``flock`` fail, as on some network file systems."""
    import fcntl

    def refuse(*arguments: Any) -> None:
        raise OSError(code, os.strerror(code))

    fcntl.flock = refuse


def jump_clock(seconds: float) -> None:
    """Let the clock go back and forward between any two calls."""
    real, calls = time.time, [0]

    def jumping() -> float:
        calls[0] += 1
        return real() + seconds * (-1) ** calls[0]

    time.time = jumping


def redirect_stdout(place: str) -> None:
    """Write stdout to a device, or to a pipe that nobody reads if empty."""
    if place:
        os.dup2(os.open(place, os.O_WRONLY), 1)
    else:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)


def wait_until(moment: float) -> None:
    """Wait for a time, at which another process starts, too."""
    time.sleep(max(0.0, moment - time.time()))
