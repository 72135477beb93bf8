"""Imports of the suites of torch, which change ``sys.path``."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

collect_ignore = [] if find_spec("skorch") else ["test_skorch_suite.py"]  # inherits its tests


@pytest.fixture(scope="session", autouse=True)
def _imported_before_the_first_test() -> None:
    """Import torch's test utilities, which add folders to ``sys.path``."""
    before = list(sys.path)
    import torch.testing._internal.common_modules  # noqa: F401

    sys.path[:] = before
