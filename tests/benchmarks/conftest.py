"""The scripts of the benchmarks as modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from undrawn import figures_are_not_drawn  # noqa: F401 (used by all tests of the folder)

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Return what imports a module of the benchmarks, as a script does; each test has its own."""
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def failures() -> Callable[[Iterable[Any]], list[str]]:
    """Return what runs cases of the fault campaign and returns those that fail, with reasons."""

    def run(cases: Iterable[Any]) -> list[str]:
        found = []
        for case in cases:
            try:
                case.run()
            except AssertionError as error:
                found.append(f"{case.name}: {error}")
        return found

    return run
