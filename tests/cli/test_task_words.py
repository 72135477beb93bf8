"""The task of a command where the words do not name it."""

from __future__ import annotations

import openpyxl
import pyarrow.parquet
import pytest

from representer.cli.errors import UsageError
from representer.cli.main import task_of_data, with_task

FILES = {
    "reviews.csv": ("text,label\n", "text"), "solubility.csv": ("SMILES,logS\n", "molecule"),
    "solubility.tsv": ("id\tsmiles\n", "molecule"), "drugs.sdf": ("", "molecule"),
    "eeg.vhdr": ("", "signal"), "drugs.smi": ("C methane\n", "molecule"),
    "graphs.jsonl": ('{"nodes": [], "edges": []}\n', "graph"),
    "reviews.jsonl": ('{"text": "a", "label": 1}\n', "text"),
    "molecules.jsonl": ('{"smiles": "C", "y": 1}\n', "molecule"),
    "story.txt": ("Once\n", "language"), "eeg.npz": ("", "signal"),
    "mutag/MUTAG_graph_indicator.txt": ("1\n", "graph"), "recordings/a.edf": ("", "signal"),
    "tables/nodes.csv": ("graph,node\n", "graph"),
    "recordings.csv": ("file,label,subject\n", "signal"),
    "headset/recordings.tsv": ("file\tlabel\tsubject\n", "signal"),
    "mails.csv": ("file,subject,body\n", "text"), "corpus/train.txt": ("a\n", "language"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_the_task_follows_from_the_data(tmp_path, name):
    content, task = FILES[name]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    data = path.parent if "/" in name else path
    words = [str(data), "--splits", "3"]
    assert with_task("compare", words) == [task, *words]
    assert with_task("compare", ["text", *words]) == ["text", *words]
    assert with_task("compare", [*words, "--kind", "graph"]) == ["graph", *words]
    assert with_task("compare", ["--kind=graph", *words]) == ["graph", *words]


def test_the_task_follows_from_the_columns_of_binary_tables(tmp_path):
    book, path = openpyxl.Workbook(), tmp_path / "table.xlsx"
    book.active.append(["SMILES", "logS"])
    book.active.append(["C", 1])
    book.save(path)
    assert with_task("compare", [str(path)])[0] == "molecule"
    pyarrow.parquet.write_table(pyarrow.table({"smiles": ["C"]}), tmp_path / "a.parquet")
    assert with_task("compare", [str(tmp_path / "a.parquet")])[0] == "molecule"
    path.write_text("SMILES\n")
    assert with_task("compare", [str(path)])[0] == "text"


def test_options_that_only_one_task_has_name_it(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("smiles,name\n")
    for words, task in (
        (["--text", "name", "--kind", "regression"], "text"),
        (["--smiles=name"], "molecule"),
    ):
        assert with_task("compare", [str(path), *words])[0] == task


def test_drift_takes_its_own_options_and_no_running_text(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text("Once")
    words = [str(path), str(path), "--limit", "3"]
    assert with_task("drift", words) == ["text", *words]
    with pytest.raises(UsageError, match="representer drift TASK FIRST SECOND"):
        with_task("drift", [*words, "--splits", "3"])


def test_json_that_is_nested_too_deeply_is_left_to_its_reader(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("[" * 100_000)
    assert task_of_data(path) == "text"


def test_fit_without_a_task_takes_that_of_the_file_and_says_so(run, tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\n")
    outcome = run("fit", path, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert outcome.err.startswith("the task is text: representer fit text\n")
    assert "no rows" in outcome.error or "reviews.csv" in outcome.error
