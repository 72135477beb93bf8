"""Estimators and kernels on a device whose tensors mix with no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_estimators_and_kernels_on_another_device_agree_with_those_on_the_cpu():
    """In a process of its own: a device, once registered, is there for all other tests."""
    script = Path(__file__).with_name("other_device.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["ok"], done.stderr[-2000:]
