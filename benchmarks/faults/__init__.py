"""Suites of the fault campaign: each yields cases that pass or say what broke.

A suite is a module of this folder with a constant ``SUITE``; `campaign.py` finds it by itself.
"""

from __future__ import annotations

import atexit
import importlib
import os
import pkgutil
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


class Unavailable(Exception):
    """A case that this machine cannot run; the message says why."""


@dataclass(frozen=True)
class Case:
    """One fault, and what must hold after it.

    Args:
        group: The row of the table that counts it, for example a command, ``"fit text"``.
        name: Unique within the suite, and the same in every run with this seed.
        run: Raises ``AssertionError`` with what broke, or ``Unavailable``.
    """

    group: str
    name: str
    run: Callable[[], None]


@dataclass(frozen=True)
class Suite:
    """Cases of one kind.

    Args:
        title: What was done and what must hold, in one sentence without a period.
        cases: Takes the seed, and the share of the full number of cases in (0, 1].
        setup: Called once before the first case that runs; for runs and files that cases share.
    """

    title: str
    cases: Callable[[int, float], Iterator[Case]]
    setup: Callable[[], None] = lambda: None


_MEASURED = [-60.0, 1.0]  # when, and by how much this process was slowed


def patience(seconds: float) -> float:
    """Return a limit of the wall clock for a process of this priority on the machine as it is.

    Each half minute, some work is timed: its time on the wall over that on the processor. Since
    load comes and goes, the average of the last minute counts as well, more so at a low priority.
    """
    if time.monotonic() - _MEASURED[0] > 30:
        start, end = time.monotonic(), time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        waited, load = (time.monotonic() - start) / 0.02, os.getloadavg()[0] / (os.cpu_count() or 1)
        crowd = load * (1 + max(0, os.nice(0))) if load > 1.2 else 1.0
        _MEASURED[:] = time.monotonic(), max(1.0, waited, crowd)
    return seconds * _MEASURED[1]


def temporary_folder() -> Path:
    """Return a new folder, which is deleted when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def suites() -> dict[str, Suite]:
    """Return the suites by name of module."""
    if (tests := str(Path(__file__).parents[2] / "tests")) not in sys.path:
        sys.path.append(tests)  # whose samples of the operations some suites take
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {name: module.SUITE for name, module in modules.items() if hasattr(module, "SUITE")}
