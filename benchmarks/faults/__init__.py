"""Suites of the fault campaign: each yields cases that pass or say what broke.

A module of this folder has its suites by name in a constant ``SUITES``, where `campaign.py` finds
them: a suite is a title, a function that yields its cases, and what all of them need.
"""

from __future__ import annotations

import atexit
import importlib
import os
import pkgutil
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


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
    run: Callable[[], object]


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


def count_of(share: float, full: int) -> int:
    """Return a share of so many cases, at least one."""
    return max(1, round(share * full))


def some(items: Sequence[T], share: float, seed: int | str) -> list[T]:
    """Draw a share of the items, in their order."""
    chosen = random.Random(seed).sample(range(len(items)), count_of(share, len(items)))
    return [items[k] for k in sorted(chosen)]


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


def emptied(folder: Path) -> Path:
    """Return a folder for one case, without what the last one left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def suites() -> dict[str, Suite]:
    """Return the suites by name."""
    if (tests := str(Path(__file__).parents[2] / "tests")) not in sys.path:
        sys.path.append(tests)  # whose samples of the operations some suites take
    found: dict[str, Suite] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        found |= getattr(module, "SUITES", {})
    return dict(sorted(found.items()))
