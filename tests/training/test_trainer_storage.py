"""Disks that fail while a model trains: one line, nothing lost, and the run can go on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from representer.storage import checkpoint

Digests = Callable[[Path], dict[str, str]]


@pytest.mark.parametrize(
    ("suffix", "action"),
    [
        ("ckpt", "enospc"),
        *(
            pytest.param(suffix, action, marks=pytest.mark.slow)
            for suffix in ("ckpt", "safetensors", "jsonl", "csv")
            for action in ("enospc", "eio")
            if (suffix, action) != ("ckpt", "enospc")
        ),
    ],
)
def test_a_disk_that_fails_ends_the_run_in_one_line_and_it_can_go_on(
    server: Any, digests: Digests, uninterrupted: Any, tmp_path: Path, suffix: str, action: str
) -> None:
    out = tmp_path / "run"
    assert server.run("train", out, failpoint=f"{suffix}.written:3:{action}") == 2
    errors = [
        line
        for line in (tmp_path / "run.log").read_text().splitlines()
        if not line.startswith("step ")
    ]
    assert len(errors) == 1
    assert f".{suffix} cannot be written: " in errors[0]
    assert not list(out.rglob("*.tmp"))
    assert checkpoint.latest(out / "checkpoints", report=pytest.fail) is not None
    assert server.run("train", out, resume=True) == 0
    assert digests(out) == uninterrupted.digests


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
def test_a_disk_that_is_really_full_loses_nothing(
    server: Any, digests: Digests, uninterrupted: Any, small_disk: Path, tmp_path: Path
) -> None:
    out = small_disk / "run"
    log = tmp_path / "log"  # not on that disk
    assert server.run("train", out, log=str(log)) == 2
    assert "cannot be written: no space left on device. Free some space" in log.read_text()
    assert not list(out.rglob("*.tmp"))
    found = checkpoint.latest(out / "checkpoints", report=pytest.fail)
    assert found is not None
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    assert server.run("train", out, resume=True) == 0
    assert digests(out) == uninterrupted.digests
