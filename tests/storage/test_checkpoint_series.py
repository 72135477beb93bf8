"""The checkpoints of a run: pruned after they are replaced, found in spite of damage."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch

from representer.errors import CheckpointError, StorageError
from representer.storage import atomic, checkpoint
from representer.storage.checkpoint import Checkpoint


def saved(folder: Path, *steps: int, keep: int = 2) -> list[str]:
    """Save some steps and return what was reported."""
    lines: list[str] = []
    for step in steps:
        state = {"weights": torch.full((3,), float(step))}
        found = Checkpoint(step, state, {}, {})
        checkpoint.save_step(folder, found, report=lines.append, keep=keep)
    return lines


def latest_step(folder: Path, lines: list[str]) -> int | None:
    found = checkpoint.latest(folder, report=lines.append)
    return None if found is None else found.step


@pytest.fixture
def arm(monkeypatch: pytest.MonkeyPatch):
    atomic.reset()
    return lambda text: monkeypatch.setenv(atomic.VARIABLE, text)


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    assert saved(tmp_path, 4, 8, 400) == []
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["step-000000008.ckpt", "step-000000400.ckpt"]


def test_as_many_as_requested_are_kept(tmp_path: Path) -> None:
    saved(tmp_path, *range(10), keep=4)
    assert checkpoint.steps(tmp_path) == [6, 7, 8, 9]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in ("notes.txt", "step-1.ckpt", "step-000000001.ckpt.bak"):
        (tmp_path / name).write_text("mine")
    saved(tmp_path, 1, 2, 3)
    assert {"notes.txt", "step-1.ckpt", "step-000000001.ckpt.bak"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert latest_step(tmp_path, []) == 3


def test_a_damaged_newest_is_reported_and_passed_over(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    path = checkpoint.path_of_step(tmp_path, 2)
    path.write_bytes(path.read_bytes()[:-5])
    lines: list[str] = []
    assert latest_step(tmp_path, lines) == 1
    assert len(lines) == 1
    assert f"{path} cannot be used" in lines[0]


def test_a_good_one_survives_saves_after_a_damaged_later_one(tmp_path: Path) -> None:
    saved(tmp_path, 4, 8)
    checkpoint.path_of_step(tmp_path, 8).write_bytes(b"damaged")
    saved(tmp_path, 5)
    assert checkpoint.steps(tmp_path) == [4, 5]


def test_without_files_there_is_none(tmp_path: Path) -> None:
    assert latest_step(tmp_path, []) is None
    assert latest_step(tmp_path / "missing", []) is None


def test_if_all_are_damaged_it_is_an_error_and_no_fresh_start(tmp_path: Path) -> None:
    for step in (1, 2):
        checkpoint.path_of_step(tmp_path, step).write_bytes(b"")
    lines: list[str] = []
    with pytest.raises(CheckpointError, match=f"all 2 checkpoints in {tmp_path} are damaged"):
        latest_step(tmp_path, lines)
    assert len(lines) == 2


@pytest.mark.parametrize("action", ["enospc", "eio"])
@pytest.mark.parametrize("stage", ["opened", "begun", "begun:3", "written", "synced"])
def test_a_disk_that_fails_before_the_rename_leaves_the_old_files_and_no_other(
    tmp_path: Path, arm, stage: str, action: str
) -> None:
    saved(tmp_path, 1, 2)
    arm(f"ckpt.{stage}:{action}")
    with pytest.raises(StorageError, match=r"step-000000003\.ckpt cannot be written: ") as caught:
        saved(tmp_path, 3)
    assert caught.value.errno == getattr(errno, action.upper())
    assert caught.value.exit_code == 2
    assert checkpoint.steps(tmp_path) == [1, 2]
    assert len(list(tmp_path.iterdir())) == 2
    assert latest_step(tmp_path, []) == 2


@pytest.mark.parametrize("stage", ["opened", "begun:2", "written", "synced"])
def test_any_other_fault_leaves_no_temporary_file_either(tmp_path: Path, arm, stage: str) -> None:
    saved(tmp_path, 1)
    arm(f"ckpt.{stage}:raise")
    with pytest.raises(RuntimeError, match="failpoint"):
        saved(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.ckpt"]


def test_one_that_cannot_be_deleted_is_reported_and_stops_nothing(tmp_path: Path, arm) -> None:
    saved(tmp_path, 1, 2)
    arm("ckpt.pruned:eio")
    lines = saved(tmp_path, 3)
    assert lines == [
        f"{checkpoint.path_of_step(tmp_path, 1)} is no longer needed and cannot be deleted: "
        "Input/output error"
    ]
    assert latest_step(tmp_path, []) == 3


def test_a_full_disk_tells_what_to_do(tmp_path: Path, arm) -> None:
    arm("ckpt.written:enospc")
    with pytest.raises(StorageError, match=r"no space left on device\. Free some space and start"):
        saved(tmp_path, 1)
