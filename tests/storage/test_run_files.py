"""Reading a run folder: every file is checked against the manifest and the model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import safetensors.torch
import torch

from representer.errors import CheckpointError, DataError
from representer.storage.run import MANIFEST, MODEL, WEIGHTS, RunFiles, RunFolder, task_of


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
