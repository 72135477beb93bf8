"""``representer export``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from representer import export
from representer.export.runs import ExportedFile, ExportedRun

from .conftest import Run, last_json


@pytest.mark.slow
def test_a_run_is_exported_as_a_program_of_torch(run: Run, trained: Path, tmp_path: Path):
    done = run("export", trained, "--to", "torch", "--out", tmp_path / "here")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == f"{tmp_path / 'here'}: model.pt2, preprocessing.json, kernel.npz"
    assert lines[2].split() == ["size", "time", *["2", "x", "5"], *["11", "x", "2"], "40", "x", "4"]
    assert [line.split()[0] for line in lines[3:5]] == ["torch", "model.pt2"]
    megabytes = (tmp_path / "here/model.pt2").stat().st_size / 1e6
    assert lines[4].split()[1:3] == [f"{megabytes:.2f}", "MB"]
    assert lines[4].split()[-3:] == ["0.0e+00"] * 3
    setup = json.loads((tmp_path / "here/preprocessing.json").read_text(encoding="utf-8"))
    program = torch.export.load(tmp_path / "here/model.pt2").module()
    tokens = torch.tensor([[2, 3, 4], [2, 0, 0]])
    (scores,) = program(tokens, torch.tensor([3, 1]))
    (target,) = setup["targets"]
    assert scores.shape == (2, len(target["classes"]))


@pytest.mark.slow
def test_onnx_files_are_compared_with_the_run_on_labeled_texts(
    run: Run, trained: Path, table: Path
):
    done = run("export", trained, table, "--int8")
    assert done.code == 0
    assert (trained / "onnx/predict.py").is_file()
    header, *rows = done.out.splitlines()[-3:]
    assert header.split() == ["torch", "model.onnx", "model.int8.onnx"]
    for row in rows:
        _, of_torch, of_onnx, of_int8 = row.split()
        assert of_torch == of_onnx
        assert abs(float(of_torch) - float(of_int8)) <= 0.1


def test_labeled_texts_are_read_as_evaluate_reads_them(
    run: Run, trained: Path, table: Path, monkeypatch: pytest.MonkeyPatch
):
    file = ExportedFile("model.onnx", 1000, 1.0, ())
    exported = ExportedRun(Path("here"), (file, file), ("predict.py",), "")
    monkeypatch.setattr(export, "export_run", lambda *_, **__: exported)
    of_run = lambda model, _, texts, labels: {"both": {"torch": model.score(texts, labels)}}  # noqa: E731
    monkeypatch.setattr(export, "scores", of_run)
    done = run("export", trained, table)
    assert done.code == 0
    name, score = done.out.splitlines()[-1].split()
    assert name == "both"
    assert float(score) == round(last_json(run("evaluate", trained, table))["accuracy"], 4)


@pytest.mark.slow
def test_a_run_is_written_as_a_folder_to_share(
    run: Run, trained: Path, table: Path, tmp_path: Path
):
    done = run("export", trained, "--to", "hub", "--out", tmp_path / "reviews")
    assert done.code == 0
    path, _, names = done.out.strip().partition(": ")
    assert path == str(tmp_path / "reviews")
    assert names.split(", ")[0] == "README.md"
    assert "# reviews\n" in (tmp_path / "reviews/README.md").read_text(encoding="utf-8")
    score, shared = (
        last_json(run("evaluate", one, table)) | {"run": "", "trained_on": 0}  # not shared
        for one in (trained, tmp_path / "reviews")
    )
    assert shared == score


@pytest.mark.parametrize("lost", ["the kernel machine", "the features of atoms and bonds"])
def test_whatever_is_left_out_is_told_on_stderr_and_by_the_exit_code(
    run: Run, trained: Path, monkeypatch: pytest.MonkeyPatch, lost: str
):
    file = ExportedFile("model.onnx", 1000, 1.0, ())
    found = ExportedRun(Path("here"), (file, file), ("predict.py",), lost)
    monkeypatch.setattr(export, "export_run", lambda *_, **__: found)
    done = run("export", trained)
    assert done.code == 3
    assert f"incomplete: here does not predict as the run does without {lost}" in done.err
