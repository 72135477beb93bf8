"""The folder of a run: one process at a time, one run at a time, one line for each error."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import sys
import tempfile
import threading
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import pytest
import safetensors.torch
import torch

from representer import machine
from representer.checks import LIMITS
from representer.errors import (
    ArgumentError,
    CheckpointError,
    DataError,
    MissingExtraError,
    RepresenterError,
    RunFolderError,
    StorageError,
)
from representer.storage import run as run_folder
from representer.storage.atomic import from_values, lock, write_text
from representer.storage.run import (
    MANIFEST,
    MODEL,
    WEIGHTS,
    Entry,
    RunFiles,
    RunFolder,
    make_folder,
    manifest_text,
    read_manifest,
    task_of,
)  # fmt: skip


def test_a_kill_after_the_description_of_a_model_leaves_it_listed(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as run:
        run.write_text("labels.json", "[]")
        assert read_manifest(run.path) == {}
        run.write_json("model.json", {"task": "text"})
        assert set(read_manifest(run.path) or ()) == {"labels.json", "model.json"}


def test_a_missing_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "runs" / "λ a") as run:
        assert run.write_text("a.txt", "x") == tmp_path / "runs" / "λ a" / "a.txt"
        run.write_json("a.json", [1])
        run.write_tensors("a.safetensors", {"w": torch.ones(2)})
        assert run.checkpoints.is_dir()
    names = {path.name for path in (tmp_path / "runs" / "λ a").iterdir()}
    written = {"a.txt", "a.json", "a.safetensors"}
    assert names == {".lock", MANIFEST, "checkpoints", *written}
    assert set(read_manifest(tmp_path / "runs" / "λ a") or ()) == written


def test_a_folder_into_which_nothing_was_written_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad data"), RunFolder(tmp_path / "run"):
        raise ValueError("bad data")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    with RunFolder(tmp_path):
        pass
    assert tmp_path.is_dir()


def test_a_second_run_is_told_which_process_holds_the_folder(tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path / "run"),
        pytest.raises(RunFolderError, match=f"run is in use by process {os.getpid()}; choose"),
    ):
        RunFolder(tmp_path / "run")


def refusal_of_a_fork(folder: Path, user: int | None = None) -> tuple[int, str]:
    """Return the exit code and the message with which a process of a user is refused a folder."""
    context = get_context("fork")  # importing takes a second
    ours, theirs = context.Pipe()

    def opened() -> None:
        if user is not None:
            os.setuid(user)
        try:
            RunFolder(folder)
        except RunFolderError as error:
            theirs.send((error.exit_code, str(error)))
        else:
            theirs.send((0, ""))

    process = context.Process(target=opened)
    process.start()
    process.join()
    assert ours.poll()
    return ours.recv()


def test_another_process_is_refused_with_exit_code_73(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run"):
        code, message = refusal_of_a_fork(tmp_path / "run")
    assert code == 73
    assert message == f"{tmp_path}/run is in use by process {os.getpid()}; choose another --out"


def test_a_closed_folder_can_be_opened_again(tmp_path: Path) -> None:
    for _ in range(3):
        with RunFolder(tmp_path / "run", resume=True) as run:
            run.write_text("metrics.jsonl", "{}\n")


def test_the_lock_holds_only_the_number_of_its_process(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("99999999999999\n")  # of a process that was killed
    with RunFolder(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(RunFolderError, match="run cannot be locked: no locks available"):
        RunFolder(tmp_path / "run")


def test_without_the_package_of_locks_its_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "filelock", None)
    with pytest.raises(MissingExtraError, match=r"needs filelock: .*representer\[train\]"):
        RunFolder(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_lock_released_by_another_thread_is_free(tmp_path: Path) -> None:
    held = lock(tmp_path)
    thread = threading.Thread(target=held.release)
    thread.start()
    thread.join()
    assert not held.is_locked
    lock(tmp_path).release()


def test_a_folder_with_a_run_is_refused_unless_it_is_resumed(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        run.write_text("config.yaml", "x")
    for _ in range(2):  # the refused folder is not left locked
        with pytest.raises(ArgumentError, match=r"one has config\.yaml.*--resume, or choose"):
            RunFolder(tmp_path)
    with RunFolder(tmp_path, resume=True) as run:
        assert run.resume


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize(
    "name", ["labels.json", "model.json", "vocabulary.json", "splits.json", "report.html", "folds"]
)
def test_a_folder_with_foreign_files_of_the_same_names_is_unchanged(
    tmp_path: Path, name: str, resume: bool
) -> None:
    (tmp_path / name).write_text("precious") if name != "folds" else (tmp_path / name).mkdir()
    (tmp_path / ".notes.tmp").write_text("precious")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises(ArgumentError, match=rf"this one has {name}\). Choose another --out"):
        RunFolder(tmp_path, resume=resume)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_foreign_manifest_is_unchanged(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"name": "an app"}')
    with pytest.raises(ArgumentError, match=r"manifest\.json cannot be used.*Choose another --out"):
        RunFolder(tmp_path, resume=True)
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]


def test_other_files_beside_the_run_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("precious")
    (tmp_path / ".notes.tmp").write_text("precious")
    with RunFolder(tmp_path) as run:
        run.write_text("config.yaml", "x")
    assert (tmp_path / "notes.txt").read_text() == (tmp_path / ".notes.tmp").read_text()


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        run.checkpoints  # noqa: B018
    leftover = ".representer-0123456789abcdef.tmp"
    (tmp_path / leftover).write_text("x")
    (tmp_path / "checkpoints" / leftover).write_text("x")
    with RunFolder(tmp_path, resume=True):
        assert not list(tmp_path.rglob("*.tmp"))


def test_a_run_of_an_older_version_is_resumed_and_gets_a_manifest(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("4701\n")
    (tmp_path / "labels.json").write_text("x")
    with RunFolder(tmp_path, resume=True) as run:
        run.write_text("config.yaml", "y")
    entries = {"labels.json": Entry.of([b"x"]), "config.yaml": Entry.of([b"y"])}
    assert read_manifest(tmp_path) == entries


def test_the_manifest_keeps_the_digest_of_what_was_written_not_of_what_lies_there(
    tmp_path: Path,
) -> None:
    with RunFolder(tmp_path) as run:
        run.write_text("labels.json", "x")
        run.write_text("model.json", "x")
        run.write_text("metrics.csv", "x")
    (tmp_path / "labels.json").write_text("damaged")
    with RunFolder(tmp_path, resume=True) as run:
        run.write_text("model.json", "new")
        run.remove("metrics.csv")
    entries = {"labels.json": Entry.of([b"x"]), "model.json": Entry.of([b"new"])}
    assert read_manifest(tmp_path) == entries


def test_the_manifest_lists_no_times_and_no_file_that_another_command_writes(
    tmp_path: Path,
) -> None:
    with RunFolder(tmp_path) as run:
        for name in ("labels.json", "timings.jsonl", "explanations.json", "report.html"):
            run.write_text(name, "x")
    assert read_manifest(tmp_path) == {"labels.json": Entry.of([b"x"])}


def test_weights_are_in_the_manifest_while_the_run_goes_on(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        run.write_text("labels.json", "x")
        assert read_manifest(tmp_path) == {}  # the mark comes before the first file
        for value in (1.0, 2.0):
            run.write_tensors("model.safetensors", {"w": torch.tensor(value)})
            data = (tmp_path / "model.safetensors").read_bytes()
            assert read_manifest(tmp_path) == {
                "labels.json": Entry.of([b"x"]),
                "model.safetensors": Entry.of([data]),
            }


def test_results_that_equal_the_previous_ones_complete_the_manifest_as_well(
    tmp_path: Path,
) -> None:
    """The report reads them before the end, and with them files that did change."""
    for details, resume in ((1, False), (2, True)):
        with RunFolder(tmp_path, resume=resume) as run:
            run.write_json("details.json", {"value": details})
            run.write_json("metrics.json", {"accuracy": 0.5})
            entries = read_manifest(tmp_path)
            assert entries is not None
            assert entries["details.json"] == Entry.of([(tmp_path / "details.json").read_bytes()])


@pytest.mark.parametrize("name", ["checkpoints", "folds", "gine"])
def test_folders_that_lead_out_of_the_run_are_refused(tmp_path: Path, name: str) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    (outside / "step-000000001.ckpt").write_text("precious")
    with RunFolder(inside) as run:
        run.write_text("config.yaml", "x")
        (inside / name).symlink_to(outside)
        if name == "checkpoints":
            with pytest.raises(RunFolderError, match="checkpoints is not a folder but a link"):
                run.checkpoints  # noqa: B018
    with pytest.raises(RunFolderError, match=f"{name} is not a folder but a link"):
        RunFolder(inside, resume=True)
    assert (outside / "step-000000001.ckpt").read_text() == "precious"


@pytest.mark.parametrize("kind", ["link", "hard link", "text", "folder", "pipe"])
def test_a_foreign_lock_is_unchanged(tmp_path: Path, kind: str) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir()
    outside.write_text("4701" if kind == "hard link" else "precious")
    match kind:
        case "link":
            (run / ".lock").symlink_to(outside)
        case "hard link":
            (run / ".lock").hardlink_to(outside)
        case "text":
            (run / ".lock").write_text("precious")
        case "folder":
            (run / ".lock").mkdir()
        case _:
            os.mkfifo(run / ".lock")
    with pytest.raises(RunFolderError, match=r"\.lock is not the lock of a run"):
        RunFolder(run)
    assert outside.read_text() in ("4701", "precious")
    assert kind != "text" or (run / ".lock").read_text() == "precious"


@pytest.mark.parametrize(("path", "message"), [
    ("file", "file is a file; expected a folder"),
    ("file/run", "file is a file; expected a folder"),
    ("x" * 300, "file name too long"),
    ("nul\0", "null byte"),
])  # fmt: skip
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
def test_a_folder_of_another_user_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        _, message = refusal_of_a_fork(Path(folder, "run"), user=65534)
    assert "/run cannot be used: permission denied" in message


def test_a_folder_deleted_while_in_use_is_an_error(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as run:
        (tmp_path / "run" / ".lock").unlink()
        (tmp_path / "run").rmdir()
        with pytest.raises(StorageError, match="The folder is gone"):
            run.write_text("a.txt", "x")
        with pytest.raises(RepresenterError):
            _ = run.checkpoints


def test_only_the_main_process_of_accelerate_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "is_main_process", lambda: False)
    with RunFolder(tmp_path / "run") as run:
        assert not run.is_writer
        run.write_text("a.txt", "x")
        run.write_json("a.json", 1)
        run.write_tensors("a.safetensors", {})
        run.remove("a.txt")
    assert not (tmp_path / "run").exists()


def test_a_leftover_rank_in_the_environment_does_not_prevent_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    with RunFolder(tmp_path / "run") as run:
        assert run.write_text("a.txt", "x").read_text() == "x"


def test_messages_name_an_option_that_exists_and_the_way_to_continue(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        run.write_text("config.yaml", "x")
        assert run.how_to_continue == "Continue with --resume."
    with pytest.raises(ArgumentError, match=r"config\.yaml\)\. Choose another folder\.$"):
        RunFolder(tmp_path, has_resume=False)
    with RunFolder(tmp_path / "new", has_resume=False) as run:  # as of a recipe
        assert run.how_to_continue == "The same command continues."
    with RunFolder(tmp_path, resume=True) as run:
        assert run.how_to_continue == "The same command continues."


# The manifest of a run and the checks of its fields.


# The manifest: sizes and digests, the same text for the same files.


ENTRIES = {"b": Entry.of([b"x", b"y"]), "a": Entry.of([])}


def test_an_entry_is_the_size_and_the_digest_of_all_chunks() -> None:
    assert ENTRIES["b"] == Entry(2, hashlib.sha256(b"xy").hexdigest())


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    (tmp_path / MANIFEST).write_text(manifest_text(ENTRIES))
    assert read_manifest(tmp_path) == ENTRIES
    assert manifest_text(dict(reversed(ENTRIES.items()))) == manifest_text(ENTRIES)


@pytest.mark.parametrize("changes", [
    {"format": "another"}, {"format": 1}, {"files": []}, {"files": {"a": {"size": 1}}},
    {"files": {"a": {"size": 1, "sha256": "x" * 64}}},
    {"files": {"a": {"size": "1", "sha256": "0" * 64}}}, {"written_by": None},
])  # fmt: skip
def test_another_or_a_damaged_manifest_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    values = json.loads(manifest_text(ENTRIES)) | changes
    (tmp_path / MANIFEST).write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"."):
        read_manifest(tmp_path)


# Values of a file become a dataclass only if every one is of its type and size.


@dataclass(frozen=True)
class Inner:
    name: str

    def __post_init__(self) -> None:
        if not self.name:
            raise ArgumentError("name", self.name, "a name")


@dataclass(frozen=True)
class Outer:
    num_layers: int
    rate: float = 0.5
    flag: bool = False
    inner: Inner | None = None
    kind: Literal["a", "b"] = "a"
    decay: float | Literal["learned"] = "learned"
    sizes: tuple[int, ...] = ()
    pair: tuple[str, float] = ("", 0.0)
    units: int | dict[int, int] = 1
    anything: Any = None


def test_values_become_what_the_hints_say() -> None:
    values = {
        "num_layers": 2, "rate": 1, "inner": {"name": "x"}, "decay": 0.25, "sizes": [1, 2],
        "pair": ["a", 1], "units": {"1": 5}, "anything": [{}],
    }  # fmt: skip
    expected = Outer(
        2, 1.0, False, Inner("x"), "a", 0.25, (1, 2), ("a", 1.0), {1: 5}, [{}]
    )  # fmt: skip
    result = from_values(Outer, values)
    assert result == expected
    assert type(result.rate) is float


@pytest.mark.parametrize(("values", "message"), [
    ([], "it holds a list; expected an object"),
    ({}, "'num_layers' is missing"),
    ({"num_layers": 1, "other": 1}, "unknown key 'other'"),
    ({"num_layers": "1"}, "num_layers is '1'; expected an integer"),
    ({"num_layers": True}, "num_layers is True; expected an integer"),
    ({"num_layers": 1.0}, r"num_layers is 1.0; expected an integer"),
    ({"num_layers": None}, "num_layers is None"),
    ({"num_layers": 10**7}, "expected an integer of at most 256"),
    ({"num_layers": 10**3000}, "num_layers is a huge integer"),
    ({"num_layers": -(2**60)}, "expected an integer of at most"),
    ({"num_layers": 1, "rate": "x"}, "rate is 'x'; expected a finite number"),
    ({"num_layers": 1, "rate": math.inf}, "expected a finite number"),
    ({"num_layers": 1, "rate": 10**400}, "expected a finite number"),
    ({"num_layers": 1, "rate": True}, "expected a finite number"),
    ({"num_layers": 1, "flag": 1}, "flag is 1; expected true or false"),
    ({"num_layers": 1, "inner": {"name": ""}}, "name is ''; expected a name"),
    ({"num_layers": 1, "inner": {"name": "x" * 10**6}}, "at most 65,536 characters"),
    ({"num_layers": 1, "inner": "x"}, "it holds 'x'; expected an object"),
    ({"num_layers": 1, "kind": "c"}, "kind is 'c'; expected 'a' or 'b'"),
    ({"num_layers": 1, "kind": ["a"]}, "kind is a list"),
    ({"num_layers": 1, "decay": {}}, "decay is an object"),
    ({"num_layers": 1, "sizes": "12"}, "sizes is '12'; expected a list"),
    ({"num_layers": 1, "sizes": [1, None]}, "sizes is None"),
    ({"num_layers": 1, "pair": ["a"]}, "pair has 1 entries; expected 2"),
    ({"num_layers": 1, "units": {"x": 1}}, "units is 'x'"),
    ({"num_layers": 1, "units": {"1" * 10: 1}}, "units is '1111111111'"),
])  # fmt: skip
def test_other_values_are_refused_in_one_short_line(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        from_values(Outer, values)
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)


def test_every_limit_is_a_positive_integer() -> None:
    assert all(type(limit) is int and limit > 0 for limit in LIMITS.values())


@pytest.mark.parametrize("name", ["con", "NUL.csv", "com1.run", "LPT9", "aux .txt", "run.", "run "])
def test_a_name_that_windows_gives_to_a_device_is_refused_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / name
    RunFolder(path).close()  # other systems take it
    monkeypatch.setattr(machine, "IS_WINDOWS", True)
    for make in (RunFolder, make_folder):
        with pytest.raises(RunFolderError, match="is not a name that Windows takes"):
            make(path)
    with pytest.raises(StorageError, match="is not a name that windows takes"):
        write_text(path / "x.csv", "x")
    for usual in ("console", "nul1", "run.v1", "..", "a.con"):
        assert machine.windows_refuses(Path("x", usual)) == ""


# Reading a run folder: every file is checked against the manifest and the model.


@dataclass(frozen=True)
class Described:
    task: str
    units: int


def build() -> torch.nn.Linear:
    return torch.nn.Linear(3, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with RunFolder(tmp_path / "run") as run:
        run.write_json(MODEL, {"task": "test", "units": 3})
        run.write_text("labels.json", "λ")
        run.write_tensors(WEIGHTS, build().state_dict())
    return tmp_path / "run"


def test_a_sound_run_is_read(folder: Path) -> None:
    files = RunFiles(folder)
    assert files.read(MODEL, Described) == Described("test", 3)
    assert files.text("labels.json") == "λ"
    assert task_of(folder) == "test"
    assert files.has("labels.json")
    assert not files.has("other.json")
    model = files.load_model(build)
    assert not model.training
    saved = safetensors.torch.load_file(folder / WEIGHTS)
    assert torch.equal(model.weight, saved["weight"])


@pytest.mark.parametrize(
    "text", ["a: [", "a: &a [1]\nb: *a", "a: {<<: {b: 1}}", "[" * 3000, "a: !!bool x", "- a", "1"]
)
def test_the_configuration_of_a_run_is_checked_as_that_of_a_user(folder: Path, text: str) -> None:
    with RunFolder(folder, resume=True) as run:
        run.write_text("config.yaml", "demo: true\nepochs: 3\n")
    assert RunFiles(folder).yaml("config.yaml") == {"demo": True, "epochs": 3}
    with RunFolder(folder, resume=True) as run:
        run.write_text("config.yaml", text)
    with pytest.raises(DataError, match=r"config\.yaml: cannot be used: "):
        RunFiles(folder).yaml("config.yaml")


@pytest.mark.parametrize("name", [MODEL, WEIGHTS, "labels.json"])
def test_a_flip_of_any_bit_is_seen(folder: Path, name: str) -> None:
    data = bytearray((folder / name).read_bytes())
    for position in {0, len(data) // 2, len(data) - 1}:
        damaged = data.copy()
        damaged[position] ^= 1
        (folder / name).write_bytes(damaged)
        files = RunFiles(folder)
        with pytest.raises((DataError, CheckpointError)):
            files.load_model(build) if name == WEIGHTS else files.bytes(name)


def test_the_message_names_the_file_the_reason_and_the_way_out(folder: Path) -> None:
    (folder / "labels.json").write_text("μ")
    with pytest.raises(DataError) as caught:
        RunFiles(folder).text("labels.json")
    assert str(caught.value) == (
        f"{folder}/labels.json: cannot be used: its SHA-256 is not that of manifest.json. "
        "Train again, or take the file from a copy of the run."
    )


def test_a_file_that_the_run_did_not_write_is_not_read(folder: Path) -> None:
    (folder / "pool.json").write_text("{}")
    assert not RunFiles(folder).has("pool.json")
    with pytest.raises(DataError, match=r"manifest\.json does not list it"):
        RunFiles(folder).bytes("pool.json")


def test_a_file_that_is_gone_is_named(folder: Path) -> None:
    (folder / "labels.json").unlink()
    assert RunFiles(folder).has("labels.json")
    with pytest.raises(DataError, match=r"there is no labels\.json; this is no run"):
        RunFiles(folder).text("labels.json")
    with pytest.raises(DataError, match="there is no such run folder"):
        RunFiles(folder / "other")


def test_a_training_that_replaces_file_and_manifest_meanwhile_is_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (folder / MANIFEST).read_text()
    with RunFolder(folder, resume=True) as run:
        run.write_text("labels.json", "new")
    after = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(before)
    monkeypatch.setattr("time.sleep", lambda seconds: (folder / MANIFEST).write_text(after))
    assert RunFiles(folder).text("labels.json") == "new"


def test_a_run_of_an_older_version_is_read_after_a_notice(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / MANIFEST).unlink()
    files = RunFiles(folder)
    assert files.has("labels.json")
    files.load_model(build)
    assert "a run of an older version, without manifest.json" in capsys.readouterr().err


def described(folder: Path) -> tuple[str, Described]:
    return task_of(folder), RunFiles(folder).read(MODEL, Described)


@pytest.mark.parametrize("damage", ["missing key", "type", "json", "deep", "encoding", "list"])
def test_a_damaged_description_is_one_line(folder: Path, damage: str) -> None:
    (folder / MANIFEST).unlink()
    content = {
        "missing key": b'{"task": "test"}', "type": b'{"task": "test", "units": "3"}',
        "json": b'{"task"', "deep": b"[" * 10_000, "encoding": b"\xff", "list": b"[]",
    }[damage]  # fmt: skip
    (folder / MODEL).write_bytes(content)
    with pytest.raises(DataError, match=r"model\.json: (cannot be used|names no task)") as caught:
        described(folder)
    assert "\n" not in str(caught.value)


def test_weights_of_another_model_are_refused_before_it_is_built(folder: Path) -> None:
    devices = []

    def other() -> torch.nn.Linear:
        model = torch.nn.Linear(3, 200)
        devices.append(model.weight.device.type)
        return model

    with pytest.raises(CheckpointError, match=r"weight is \(2, 3\) torch.float32 in the file"):
        RunFiles(folder).load_model(other)
    assert devices == ["meta"]
    with pytest.raises(DataError, match=r"model\.json: cannot be used"):
        RunFiles(folder).load_model(lambda: torch.nn.Linear(2**62, 2**62))


def test_missing_weights_are_distinguished_from_damaged_ones(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    with pytest.raises(DataError, match=r"there are no weights yet.*--resume"):
        RunFiles(folder).load_model(build)


def test_a_damaged_manifest_is_refused(folder: Path) -> None:
    (folder / MANIFEST).write_text(json.dumps({"files": {}}))
    with pytest.raises(DataError, match=r"manifest\.json: cannot be used: 'format' is missing"):
        RunFiles(folder)
