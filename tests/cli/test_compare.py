"""``compare``: the rows are those of ``fit`` with the same seed, on every task."""

from __future__ import annotations

import json
import random
import shlex
import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from jsonargparse import Namespace

from cli.conftest import TINY, chains, write_molecules, write_table
from representer.cli.train import Compare
from representer.data.signals import synthetic_recordings
from representer.data.signals.arrays import write_npz
from representer.options.registry import TASKS
from representer.options.signal import SignalConfig
from representer.tasks.signal.flow import FLOW as SIGNAL_FLOW

ONE_EPOCH = [*TINY, "--epochs", "1"]
PARTS = {"kernel", "network", "both"}


def results(out: Path) -> dict[tuple[int, str], dict]:
    """Return each result by split and name of the row."""
    lines = (out / "results.jsonl").read_text("utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    return {(one["split"], row["name"]): row for one in entries for row in one["results"]}


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A comparison on a table of 60 rows, with another cell; tests only read it."""
    from representer.cli.main import entry_point

    folder = tmp_path_factory.mktemp("compared")
    data, out = write_table(folder / "table.csv"), folder / "out"
    words = ["compare", str(data), *ONE_EPOCH, "--splits", "2", "--cells", "rkm-lstm"]
    assert entry_point([*words, "--out", str(out)]) == 0
    return data, out


@pytest.mark.parametrize(("task", "row", "given", "command"), [
    ("text", "both", {"data": "a b.csv"}, "fit text 'a b.csv' --answer both"),
    ("text", "network, cnn", {"data": "a.csv", "epochs": 3},
     "fit text a.csv --answer network --cell cnn --epochs 3"),
    ("graph", "network, random-walk", {"data": "g", "test_fraction": 0.5},
     "fit graph g --answer network --network random-walk --test-fraction 0.5"),
    ("molecule", "kernel", {"data": "m.csv", "test_fraction": 0.2},
     "fit molecule m.csv --answer kernel"),
    ("signal", "kernel", {"data": "s.npz"}, "fit signal s.npz --answer kernel"),
    ("language", "both", {"data": "t.txt"}, "fit language t.txt --answer both"),
])  # fmt: skip
def test_the_best_row_is_trained_by_the_command_that_is_shown(task, row, given, command):
    compare = Compare(TASKS[task])
    parsed = Namespace(**{one.name: one.default for one in fields(compare.task.config)})
    config = compare.task.config(**{**compare.defaults(parsed), **given})
    shown = compare.fit_command(row, config, parsed)
    assert sorted(shlex.split(shown)) == sorted(["representer", *shlex.split(command)])


def test_every_row_is_trained_and_tested_on_every_split(compared):
    _, out = compared
    found = results(out)
    svm = "TF-IDF of words and characters + linear SVM"
    names = PARTS | {"network, rkm-lstm", "TF-IDF + logistic regression", svm, "majority class"}
    assert set(found) == {(split, name) for split in range(2) for name in names}
    assert {(row["train"], len(row["losses"])) for row in found.values()} == {(48, 12)}
    assert {name for (_, name), row in found.items() if row["is_baseline"]} == {
        "TF-IDF + logistic regression", svm, "majority class",
    }  # fmt: skip
    page = (out / "table.md").read_text("utf-8")
    assert "# table.csv: 2 splits of 60 documents" in page
    assert page.count("| network") == 2


def test_the_same_command_continues_and_other_settings_are_refused(run, compared, tmp_path):
    data, finished = compared
    out = shutil.copytree(finished, tmp_path / "out")
    before = (out / "results.jsonl").read_bytes()
    words = ["compare", "text", data, *ONE_EPOCH, "--out", out, "--splits", "2"]
    outcome = run(*words)
    assert outcome.code == 0
    assert (out / "results.jsonl").read_bytes() == before
    assert "rkm-lstm" not in outcome.out
    assert outcome.out.rstrip().endswith(str(out / "table.md"))
    rows = json.loads(run(*words, "--json").out)
    assert {row["name"] for row in rows if not row["is_baseline"]} == PARTS
    outcome = run(*words, "--hidden-size", "7")
    assert outcome.code == 2
    assert "--hidden-size is 7; expected 6" in outcome.error


def test_a_test_file_is_the_test_part_of_all_splits(run, tmp_path):
    data = write_table(tmp_path / "table.csv")
    test = write_table(tmp_path / "test.csv", count=10, seed=1)
    out = tmp_path / "out"
    words = ["compare", data, *ONE_EPOCH, "--test", test, "--splits", "2", "--out", out]
    outcome = run(*words)
    assert outcome.code == 0, outcome.err
    assert "table.csv: 2 seeds, tested on the 10 documents of the test file" in outcome.out
    assert {(row["train"], len(row["losses"])) for row in results(out).values()} == {(60, 10)}


@pytest.mark.slow
@pytest.mark.parametrize(("words", "metric"), [
    (["graph", "--depth", "1", "--network", "random-walk", "--cells", "wl"], "accuracy in %"),
    (["molecule", "--target", "atoms", "--smiles", "smiles", "--members", "1"], "RMSE"),
])  # fmt: skip
def test_graphs_and_molecules_are_compared_alike(run, tmp_path, words, metric):
    data = tmp_path / "data.jsonl"
    if words[0] == "graph":
        data.write_text("\n".join(json.dumps(graph) for graph in chains(40)), "utf-8")
    else:
        data = write_molecules(tmp_path / "data.csv", 40)
    tiny = ["--hidden-size", "4", "--epochs", "1", "--splits", "2", "--threads", "1"]
    out = tmp_path / "out"
    outcome = run("compare", words[0], data, *words[1:], *tiny, "--out", out)
    assert outcome.code == 0, outcome.err
    assert metric in outcome.out
    found = results(out)
    assert {name for _, name in found} >= PARTS
    assert {split for split, _ in found} == {0, 1}
    assert any(row["is_baseline"] for row in found.values())
    assert ((0, "network, wl") in found) == (words[0] == "graph")


@pytest.mark.slow
def test_signals_are_compared_on_the_folds_of_fit(run, tmp_path):
    data = tmp_path / "data.npz"
    write_npz(data, synthetic_recordings(subjects=4, windows=8))
    tiny = [data, "--epochs", "1", "--hidden-size", "4", "--standardize", "window",
            "--stride", "20", "--threads", "1", "--jobs", "1"]  # fmt: skip
    outcome = run("compare", "signal", *tiny, "--splits", "2", "--out", tmp_path / "out",
                  "--cells", "rkm-cifg")  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert "2 groups of subjects left out in turn, 32 windows of 4 subjects" in outcome.out
    found = results(tmp_path / "out")
    baselines = {"log band power + logistic regression", "majority class"}
    names = PARTS | baselines | {"network, rkm-cifg"}
    assert set(found) == {(split, name) for split in range(2) for name in names}
    fit = ["fit", "signal", *tiny, "--folds", "2", "--answer", "both", "--out", tmp_path / "run"]
    assert run(*fit).code == 0
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))
    for split, fold in enumerate(metrics["folds"]):
        assert fold["accuracy"] == pytest.approx(1 - np.mean(found[split, "both"]["losses"]))
        assert fold["windows"] == len(found[split, "both"]["losses"])
        assert found[split, "both"]["train"] == 32 - fold["windows"]
    outcome = run("compare", "signal", *tiny, "--splits", "5", "--out", tmp_path / "none")
    assert outcome.code == 2
    assert "--splits is 5; expected 2 to 4, the number of subjects" in outcome.error


def test_few_subjects_are_left_out_one_by_one_without_an_option(tmp_path):
    write_npz(tmp_path / "few.npz", synthetic_recordings(subjects=3, windows=4))
    found = SIGNAL_FLOW.comparison(SignalConfig(data=str(tmp_path / "few.npz")))
    assert (list(found.splits), found.groups) == ([0, 1, 2], 3)


def test_language_models_are_tested_on_blocks_or_on_one_text(run, tmp_path):
    path = tmp_path / "story.txt"
    rng = random.Random(0)
    lines = [" ".join(rng.choices(["the", "old", "young", "cat", "dog", "sat", "on", "mat"], k=8))
             for _ in range(60)]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    tiny = ["--epochs", "1", "--hidden-size", "4", "--num-layers", "1", "--batch-size", "2"]
    out = tmp_path / "out"
    outcome = run("compare", path, *tiny, "--splits", "2", "--cells", "rkm-lstm", "--out", out)
    assert outcome.code == 0, outcome.err
    assert "story.txt: tested on 2 blocks of its lines in turn" in outcome.out
    found = results(out)
    names = PARTS | {"network, rkm-lstm", "1-gram", "3-gram, Kneser-Ney"}
    assert set(found) == {(split, name) for split in range(2) for name in names}
    assert {row["test"] for row in found.values()} == {12 * 9}
    assert {row["train"] for row in found.values()} == {48 * 9}
    assert found[0, "1-gram"]["losses"] != found[1, "1-gram"]["losses"]
    fit = ["fit", "language", path, *tiny, "--test-fraction", "0.2", "--answer", "both"]
    assert run(*fit, "--out", tmp_path / "run").code == 0
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))
    assert found[0, "both"]["losses"] == [metrics["test"]["loss"]]
    assert found[0, "kernel"]["losses"] == [metrics["parts"]["kernel"]["loss"]]
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, part in (("train", lines[:40]), ("valid", lines[40:50]), ("test", lines[50:])):
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n")
    outcome = run("compare", folder, *tiny, "--splits", "2", "--out", tmp_path / "fixed")
    assert "corpus: 2 seeds, one test text (intervals over seeds only)" in outcome.out
    fixed = results(tmp_path / "fixed")
    assert fixed[0, "kernel"]["losses"] == fixed[1, "kernel"]["losses"]
    assert fixed[0, "network"]["losses"] != fixed[1, "network"]["losses"]
