"""Imports of the suites of torch, which change ``sys.path``."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(scope="session", autouse=True)
def _imported_before_the_first_test() -> None:
    """Import torch's test utilities, which add folders to ``sys.path``."""
    before = list(sys.path)
    import torch.testing._internal.common_modules  # noqa: F401

    sys.path[:] = before
