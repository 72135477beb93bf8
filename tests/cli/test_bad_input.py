"""Bad input: one line with file, place and fix, exit code 2, nothing half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import QUICK, TINY, write_table

GOOD = "text,label\n" + "wave tide,sea\nmoon star,sky\n" * 20

# name of the file, its bytes (None: the path stays empty), further options, what the line must say
CASES = {
    "a missing column": (
        "a.csv", GOOD.encode(), ["--label", "labell"],
        ["a.csv", "no column 'labell'", "'text', 'label'", "Did you mean 'label'?", "--label one"],
    ),
    "columns that cannot be told apart": (
        "a.csv", b"a1,b1\nwave,moon\nstar,tide\n", [], ["a.csv", "Name it", "--text"],
    ),
    "an empty file": ("a.csv", b"", [], ["a.csv"]),
    "blank lines alone": ("a.csv", b"\n\n\n", [], ["a.csv"]),
    "a header alone": ("a.csv", b"text,label\n", [], ["a.csv", "no documents"]),
    "another encoding": (
        "a.csv", GOOD.encode() + "gr\u00fcn,sea\n".encode("latin-1"), [],
        ["a.csv", "line 42", "--encoding"],
    ),
    "UTF-16": ("a.csv", GOOD.encode("utf-16"), [], ["a.csv", "UTF-16"]),
    "a NUL byte": ("a.csv", GOOD.encode() + b"wa\x00ve,sea\n", [], ["a.csv", "line 42", "NUL"]),
    "one class alone": (
        "a.csv", b"text,label\nwave,sea\ntide,sea\nsalt,sea\n", [],
        ["a.csv", "column 'label'", "'sea'", "at least two classes"],
    ),
    "a row too long": (
        "a.csv", GOOD.encode() + b"a,b,c\n", [], ["a.csv", "line 42", "too many cells", "quotes"],
    ),
    "a quote left open": ("a.csv", GOOD.encode() + b'"a,sea\n', [], ["a.csv", "line 42", "quote"]),
    "no file": ("nowhere.csv", None, [], ["nowhere.csv"]),
    "an unknown suffix": ("a.docx", b"PK", [], ["a.docx", ".csv"]),
    "a broken archive": ("a.csv.gz", b"\x1f\x8b\x08broken", [], ["a.csv.gz"]),
    "broken JSON": (
        "a.jsonl", b'{"text": "wave", "label": "sea"}\n{"text"\n', [], ["a.jsonl", "line 2"],
    ),
    "too few documents": ("a.csv", b"text,label\nwave,sea\nmoon,sky\n", [], ["a.csv"]),
    "texts without a word": (
        "a.csv", ("text,label\n" + "wave,sea\nmoon,sky\n" * 20).encode(), ["--min-length", "9"],
        ["a.csv", "column 'text'", "--min-length"],
    ),
    "a vocabulary without a word": (
        "a.csv", GOOD.encode(), ["--min-count", "500"], ["a.csv", "--min-count"],
    ),
    "vectors that are not there": (
        "a.csv", GOOD.encode(), ["--vectors", "no.txt"], ["no.txt"],
    ),
    "a test file that is not there": ("a.csv", GOOD.encode(), ["--test", "no.csv"], ["no.csv"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bad_data_is_one_line_and_leaves_nothing_behind(run, tmp_path, monkeypatch, name):
    file, content, options, expected = CASES[name]
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(file).write_bytes(content)
    before = sorted(Path().iterdir())
    outcome = run("fit", "text", file, "--out", "runs/new", *TINY, *options)
    assert outcome.code == 2, outcome.err
    assert all(part in outcome.error for part in expected), outcome.error
    assert "Traceback" not in outcome.err
    assert "internal" not in outcome.err
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("command", ["fit text", "evaluate", "predict"])
def test_a_directory_is_named_as_one(run, trained, tmp_path, command):
    words = command.split() + ([] if command == "fit text" else [trained])
    outcome = run(*words, tmp_path)
    assert outcome.code == 2
    assert str(tmp_path) in outcome.error
    assert "directory" in outcome.error or "folder" in outcome.error


@pytest.mark.parametrize("command", ["evaluate", "predict"])
@pytest.mark.parametrize("content", [b"", GOOD.encode() + b"\x00,sea\n", b"text,label\n\xff,sea\n"])
def test_a_trained_model_refuses_bad_data_too(run, trained, tmp_path, command, content):
    data = tmp_path / "a.csv"
    data.write_bytes(content)
    out = tmp_path / "out.csv"
    outcome = run(command, trained, data, *(["-o", out] if command == "predict" else []))
    assert outcome.code == 2
    assert str(data) in outcome.error
    assert not out.exists()


def test_an_unknown_label_in_the_test_file_is_found_before_training(run, table, tmp_path):
    other = write_table(tmp_path / "other.csv", count=3)
    other.write_text(other.read_text() + "9,wave tide,lake\n")
    outcome = run("fit", "text", table, "--test", other, "--out", tmp_path / "run", *TINY)
    assert outcome.code == 2
    assert f"{other}, line 5, column 'label': the label 'lake'" in outcome.error
    assert not (tmp_path / "run").exists()


STAGES = [
    "yaml.begun", "json.begun", "json.begun:4", "ckpt.begun", "ckpt.synced", "jsonl.begun",
    "safetensors.begun", "csv.begun", "html.begun",
]  # fmt: skip


@pytest.mark.parametrize(
    "stage",
    [pytest.param(s, marks=[pytest.mark.slow] if i % 4 else []) for i, s in enumerate(STAGES)],
)
def test_a_full_disk_is_one_line_and_no_file_is_half_written(
    run, table, tmp_path, monkeypatch, stage
):
    out = tmp_path / "run"
    monkeypatch.setenv("REPRESENTER_FAILPOINT", f"{stage}:enospc")
    from representer.storage import atomic as failpoints

    failpoints.reset()
    outcome = run("fit", "text", table, "--out", out, *QUICK)
    assert outcome.code == 2
    assert "no space left on device" in outcome.error
    assert "Free some space" in outcome.error
    assert not list(out.rglob("*.tmp")) if out.exists() else True
    monkeypatch.delenv("REPRESENTER_FAILPOINT")
    assert run("fit", "text", table, "--out", out, "--resume", *QUICK).code == 0


def test_a_run_folder_that_cannot_be_made_says_so(run, table, tmp_path):
    (tmp_path / "file").write_text("")
    outcome = run("fit", "text", table, "--out", tmp_path / "file" / "run", *TINY)
    assert outcome.code == 73
    assert str(tmp_path / "file") in outcome.error
