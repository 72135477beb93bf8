"""What every test stands on: a seed, and uninitialised memory that cannot pass for a result."""

from __future__ import annotations

import random

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
def _poison_uninitialised_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill what torch.empty returns with NaN, so that a kernel that skips an entry is seen."""
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
