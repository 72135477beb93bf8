"""Fixtures of every test: a seed, poisoned uninitialized memory, and unchanged process state."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator

# before torch: threads of several processes that wait in a loop take the cores from each other
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pytest
import torch

from process_state import differences, snapshot

torch.set_num_threads(1)  # the tests' sizes are tiny, and several workers share the cores


def pytest_collection_finish() -> None:
    """Leave the collected tests and imported packages out of later garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _process_state_is_unchanged() -> Iterator[None]:
    """Fail a test that leaves process-wide state changed, and restore the random states."""
    before = snapshot()
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    changed = differences(before, snapshot())
    if changed:
        pytest.fail("the test leaves process-wide state changed: " + "; ".join(changed))


@pytest.fixture(autouse=True)
def _seed(_process_state_is_unchanged: None) -> None:
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)  # torch.manual_seed also records the stack for a GPU


@pytest.fixture(autouse=True)
def _poison_uninitialized_memory(_process_state_is_unchanged: None) -> Iterator[None]:
    """Fill what torch.empty returns with NaN, so that a kernel that skips an entry is seen."""
    assert torch.utils.deterministic.fill_uninitialized_memory  # but only in this mode:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)
