"""Fixtures of every test: a seed, poisoned uninitialized memory, and unchanged process state."""

from __future__ import annotations

import gc
import inspect
import os
import signal
from collections.abc import Generator, Iterator
from typing import Any

# before torch and numpy, and for child processes: threads that wait in a loop, those of OpenBLAS on
# matrices of a few rows too, take the cores from the other workers
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic products on a GPU

import pytest
import torch

from looped import merged, seed
from process_state import differences, snapshot

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # in the background of a shell without jobs
    signal.signal(signal.SIGINT, signal.default_int_handler)  # child processes ignored it, too
torch.set_num_threads(1)  # the tests' sizes are tiny, and several workers share the cores
# Files of tests need not survive a loss of power. This still refuses what is no open file.
os.fsync = os.fstat  # type: ignore[assignment]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave tests and packages out of garbage collections, a fifth of the time until here."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(200_000, 20, 20)  # a collection in 700 allocations is a tenth of the time
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--each-case", action="store_true", help="an item for each case of a table")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> list[pytest.Function] | None:
    """Make few items of a test with many cases: an item costs more than most of the cases.

    Cases stay items if one is chosen by name: by ``-k``, in brackets, or with ``--each-case``.
    """
    config = collector.config
    if config.option.each_case or config.option.keyword or any("[" in word for word in config.args):
        return None
    is_test = inspect.isfunction(obj) and name.startswith("test")
    return merged(collector, name, obj) if is_test else None


@pytest.fixture(autouse=True)
def _process_state_is_unchanged() -> Iterator[None]:
    """Fail a test that leaves process-wide state changed; every test starts with the same seed.

    What torch.empty returns is filled with NaN, so that a kernel that skips an entry is seen. One
    fixture does all of it, since each costs a fifth of a millisecond in each of the tests.
    """
    before = snapshot()
    seed()
    assert torch.utils.deterministic.fill_uninitialized_memory  # but only in this mode:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before["deterministic algorithms"])
    seed()  # fixtures of several tests, which run before this one, start with it too
    changed = differences(before, snapshot())
    if changed:
        pytest.fail("the test leaves process-wide state changed: " + "; ".join(changed))


seed()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser for all tests that look at pages; there can be one in a process."""
    from browser import opened_browser

    with opened_browser() as opened:
        yield opened
