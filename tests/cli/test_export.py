"""``representer export``."""

from __future__ import annotations

from pathlib import Path

import pytest

from representer import export
from representer.export.runs import ExportedFile, ExportedRun

from .conftest import Run, last_json


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
