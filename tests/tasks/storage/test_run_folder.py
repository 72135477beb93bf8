"""The folder of a run: one process at a time, one run at a time, one line for each error."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from representer.errors import ArgumentError, RepresenterError, RunFolderError, StorageError
from representer.tasks.storage.run_folder import RunFolder


def test_a_missing_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "runs" / "λ a") as run:
        assert run.write_text("a.txt", "x") == tmp_path / "runs" / "λ a" / "a.txt"
        run.write_json("a.json", [1])
        run.write_tensors("a.safetensors", {"w": torch.ones(2)})
        assert run.checkpoints.is_dir()
    names = {path.name for path in (tmp_path / "runs" / "λ a").iterdir()}
    assert names == {".lock", "a.txt", "a.json", "a.safetensors", "checkpoints"}


def test_a_folder_into_which_nothing_was_written_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad data"), RunFolder(tmp_path / "run"):
        raise ValueError("bad data")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    with RunFolder(tmp_path):
        pass
    assert tmp_path.is_dir()


def test_the_second_to_come_is_told_who_has_it(tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path / "run"),
        pytest.raises(RunFolderError, match=f"run is in use by process {os.getpid()}; choose"),
    ):
        RunFolder(tmp_path / "run")


def test_another_process_is_refused_with_exit_code_73(tmp_path: Path) -> None:
    code = (
        "import sys; from representer.tasks.storage.run_folder import RunFolder\n"
        "from representer.errors import RunFolderError\n"
        "try: RunFolder(sys.argv[1])\n"
        "except RunFolderError as error: print(error); sys.exit(error.exit_code)"
    )
    with RunFolder(tmp_path / "run"):
        command = [sys.executable, "-c", code, str(tmp_path / "run")]
        other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert other.returncode == 73, other.stderr
    expected = f"{tmp_path}/run is in use by process {os.getpid()}; choose another --out"
    assert other.stdout.strip() == expected


def test_a_closed_folder_can_be_opened_again(tmp_path: Path) -> None:
    for _ in range(3):
        with RunFolder(tmp_path / "run", resume=True) as run:
            run.write_text("metrics.jsonl", "{}\n")


@pytest.mark.parametrize("trace", ["config.yaml", "metrics.jsonl", "model.safetensors"])
def test_a_folder_with_a_run_is_refused_unless_it_is_resumed(tmp_path: Path, trace: str) -> None:
    (tmp_path / trace).write_text("x")
    with pytest.raises(ArgumentError, match=rf"this one has {trace}.*--resume, or choose another"):
        RunFolder(tmp_path)
    with RunFolder(tmp_path, resume=True) as run:
        assert run.resume


def test_a_refused_folder_is_not_left_locked(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("x")
    for _ in range(2):
        with pytest.raises(ArgumentError):
            RunFolder(tmp_path)


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / ".model.safetensors.4701.tmp").write_text("x")
    (tmp_path / "checkpoints" / ".step-000000001.ckpt.4701.tmp").write_text("x")
    with RunFolder(tmp_path, resume=True):
        assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("file", "file is a file; expected a folder"),
        ("file/run", "file is a file; expected a folder"),
        ("x" * 300, "file name too long"),
        ("nul\0", "null byte"),
    ],
)
def test_a_path_that_cannot_be_a_folder_is_named_in_one_line(
    tmp_path: Path, path: str, message: str
) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunFolderError, match=message) as caught:
        RunFolder(tmp_path / path)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 73


def test_a_place_where_nothing_can_be_made_is_named() -> None:
    with pytest.raises(RunFolderError, match=r"^/proc/run cannot be used: .*\. Choose another"):
        RunFolder("/proc/run")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_folder_of_somebody_else_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        code = (
            "import os, sys; from representer.tasks.storage.run_folder import RunFolder\n"
            "os.setuid(65534); RunFolder(sys.argv[1] + '/run')"
        )
        command = [sys.executable, "-c", code, folder]
        other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert re.search(r"RunFolderError: .*/run cannot be used: permission denied", other.stderr)


def test_a_folder_that_is_gone_while_in_use_is_an_error_and_not_a_success(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as run:
        (tmp_path / "run" / ".lock").unlink()
        (tmp_path / "run").rmdir()
        with pytest.raises(StorageError, match="The folder is gone"):
            run.write_text("a.txt", "x")
        with pytest.raises(RepresenterError):
            _ = run.checkpoints


def test_only_the_first_of_several_processes_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    with RunFolder(tmp_path / "run") as run:
        assert not run.is_writer
        run.write_text("a.txt", "x")
        run.write_json("a.json", 1)
        run.write_tensors("a.safetensors", {})
        run.remove("a.txt")
    assert not (tmp_path / "run").exists()
