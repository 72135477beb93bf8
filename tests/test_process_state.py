"""A test that leaves process-wide state changed fails, whatever it asserts."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from process_state import differences, snapshot

CHANGES = {
    "recursion limit": "sys.setrecursionlimit(sys.getrecursionlimit() + 1)",
    "torch threads": "torch.set_num_threads(2)",
    "default dtype": "torch.set_default_dtype(torch.float64)",
    "default device": "torch.set_default_device('meta')",
    "grad mode": "torch.set_grad_enabled(False)",
    "anomaly mode": "torch.autograd.set_detect_anomaly(True)",
    "float32 matmul precision": "torch.set_float32_matmul_precision('medium')",
    "denormal numbers": "assert torch.set_flush_denormal(True)",
    "os.environ": "os.environ['LEFT_BEHIND'] = '1'", "working directory": "os.chdir(os.sep)",
    "umask": "os.umask(0o123)", "sys.path": "sys.path.append('left behind')",
    "signal handlers": "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "root logger": "logging.root.setLevel(1)", "excepthook": "sys.excepthook = print",
}  # fmt: skip


class Unseen(Warning):
    """A category of no other filter."""


def test_unchanged_state_has_no_differences() -> None:
    torch.rand(3)
    assert differences(snapshot(), snapshot()) == []


def test_a_variable_is_named_without_the_rest_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = snapshot()
    monkeypatch.setitem(os.environ, "LEFT_BEHIND", "1")
    (line,) = differences(before, snapshot())
    assert line == "os.environ: was {'LEFT_BEHIND': None}, is {'LEFT_BEHIND': '1'}"


def test_pytest_restores_warnings_filters_1() -> None:
    """Add a filter that the next test must not see, in whichever order the two run."""
    assert not any(each[2] is Unseen for each in warnings.filters)
    warnings.simplefilter("ignore", Unseen)


def test_pytest_restores_warnings_filters_2() -> None:
    test_pytest_restores_warnings_filters_1()


@pytest.mark.slow
def test_the_fixture_fails_each_test_that_changes_state(tmp_path: Path) -> None:
    """One process, one test a change; each must end in an error that names its state."""
    lines = ["import logging, os, signal, sys", "import torch"]
    for place, change in enumerate(CHANGES.values()):
        lines += ["", f"def test_{place}():", f"    {change}"]
    file = tmp_path / "test_changes.py"
    file.write_text("\n".join(lines), encoding="utf-8")
    command = [
        sys.executable, "-m", "pytest", "-q", "-rE", "-p", "conftest", "-p", "no:cacheprovider",
    ]  # fmt: skip
    done = subprocess.run(
        [*command, str(file)], capture_output=True, text=True, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent), "COLUMNS": "1000"},
    )  # fmt: skip
    for place, name in enumerate(CHANGES):
        wanted = f"test_{place} - Failed: the test leaves process-wide state changed: {name}: was"
        assert wanted in done.stdout, done.stdout + done.stderr
