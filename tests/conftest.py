"""What every test stands on: a seed, and uninitialized memory that cannot pass for a result."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch

torch.set_num_threads(1)  # the tests' sizes are tiny, and several workers share the cores


@pytest.fixture(autouse=True)
def _seed() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _poison_uninitialized_memory() -> Iterator[None]:
    """Fill what torch.empty returns with NaN, so that a kernel that skips an entry is seen."""
    assert torch.utils.deterministic.fill_uninitialized_memory  # but only in this mode:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)
