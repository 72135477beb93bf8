"""The table of public data sets as a user's own data: sets, columns and sentences."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papers.conftest import write_treebank
from papers.graph_files import write_graphs
from representer.errors import ArgumentError, DataError
from representer.tasks.comparison import Result
from representer.tasks.comparison_statistics import METRICS
from representer.tasks.comparison_table import Table
from representer.tasks.recipe import Request
from representer.tasks.registry import TASKS
from representer_papers.own_data import (
    GRAPHS,
    KINDS,
    LANGUAGE,
    MOLECULES,
    RECIPES,
    SIGNALS,
    TEXTS,
    own_data,
    sets,
)
from representer_papers.rkm2019.datasets import DATASETS as DOCUMENT_SETS

RECIPE = RECIPES["own-data"]


@pytest.fixture(scope="session")
def root(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Yahoo! Answers, SST, MUTAG, FreeSolv, an EEG and a text."""
    folder = write_treebank(tmp_path_factory.mktemp("own"))
    shutil.copytree(data / "yahoo_2class", folder / "yahoo_2class")
    write_graphs(folder / "tu")
    (folder / "molecules").mkdir()
    rows = [f"{'C' * (1 + i % 9)}{'O' * (i % 2)},{i % 9 + i % 2 / 2}" for i in range(40)]
    (folder / "molecules" / "freesolv.csv").write_text("smiles,freesolv\n" + "\n".join(rows) + "\n")
    (folder / "eeg_mental_arithmetic").mkdir()
    rng, subjects = np.random.default_rng(0), 6
    np.savez(
        folder / "eeg_mental_arithmetic" / "eegmat_250hz.npz",
        X=rng.integers(-100, 100, (2 * subjects, 2, 1000)).astype(np.int16),
        uv_per_count=np.float32(0.1),
        fs=np.int32(250),
        channels=np.asarray(["Fp1", "Fp2"]),
        subject=np.repeat(range(subjects), 2),
        state=np.asarray([0, 1] * subjects),
    )
    (folder / "ptb").mkdir()
    lines = [f"the {a} {b} sat" for a in ("old", "young") for b in ("cat", "dog", "fox")]
    for part in ("train", "valid", "test"):
        (folder / "ptb" / f"ptb.{part}.txt").write_text("\n".join(lines * 12) + "\n")
    return folder


def request(root: Path, out: Path, **options: Any) -> Request:
    chosen = {"smoke": True, "seeds": (0, 1), "threads": 1, "command": "representer"} | options
    return Request(root, out, **chosen)


def cells(page: str, title: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {title} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.filterwarnings("ignore:.*nothing that training had")  # of a few dozen texts
def test_every_set_that_is_there_is_compared_and_the_others_are_named(root, tmp_path, capsys):
    page = RECIPE.run(request(root, tmp_path)).read_text("utf-8")
    for title in ("Yahoo! Answers, two topics", "SST, two classes", "SST, five classes"):
        _, baseline, *figures = cells(page, title)
        assert baseline.startswith("TF-IDF + logistic regression: ")
        assert all(0 <= float(figure.split(" ± ")[0]) <= 100 for figure in figures[:4])
        assert figures[-1] == "2"
    _, baseline, _, network_before, *_ = cells(page, "MUTAG")
    assert "Weisfeiler-Lehman" in baseline
    assert network_before == "="  # a network with the same options
    assert "WL subtree kernel" in cells(page, "FreeSolv")[1]
    assert "log band power" in cells(page, "EEG, mental arithmetic")[1]
    assert cells(page, LANGUAGE["ptb"])[1].startswith("3-gram, Kneser-Ney: ")
    assert "missing in the folder of the data: ag-news, dbpedia, yelp, nci1" in page
    assert "Smoke run" in page
    assert "ag-news is skipped: " in capsys.readouterr().err
    before = {path: path.read_bytes() for path in tmp_path.rglob("results.jsonl")}
    assert {path.parent.name for path in before} == {
        "yahoo", "sst-fine", "sst-binary", "mutag", "freesolv", "arithmetic",
        "ptb",
    }  # fmt: skip
    again = RECIPE.run(request(root, tmp_path, table_only=True)).read_text("utf-8")
    assert again == page
    assert {path: path.read_bytes() for path in before} == before


def test_a_request_names_sets_and_a_folder_without_any_is_refused(root, tmp_path):
    page = RECIPE.run(request(root, tmp_path / "out", datasets=("mutag",))).read_text("utf-8")
    assert "MUTAG" in page
    assert "not run: ag-news, dbpedia" in page
    assert "| Yahoo" not in page
    with pytest.raises(DataError, match="there are no files of nci1"):
        RECIPE.run(request(root, tmp_path / "none", datasets=("nci1",)))
    with pytest.raises(ArgumentError, match="datasets is 'iris'"):
        RECIPE.run(request(root, tmp_path / "none", datasets=("iris",)))
    assert not (tmp_path / "none").exists()


def test_old_defaults_that_differ_get_a_network_of_their_own(root, tmp_path, monkeypatch):
    changed = {**sets.OPTIONS, "graph": sets.OPTIONS["graph"] | {"order": 1}}
    monkeypatch.setattr(sets, "OPTIONS", changed)
    made = sets.comparison("mutag", request(root, tmp_path))
    assert made.variants == {"network before": {"order": 1}}
    page = RECIPE.run(request(root, tmp_path, datasets=("mutag",))).read_text("utf-8")
    assert "±" in cells(page, "MUTAG")[3]


# Options of data, splits and runs, which are those of the other columns.
OF_THE_RUN = {
    "data", "out", "valid", "test", "test_fraction", "valid_fraction", "seed", "threads",
    "baselines", "resume", "demo", "preset", "time_limit", "device", "cuda_graph", "answer",
    "conformal", "warm_start", "kind", "task", "split", "folds", "test_subjects", "jobs", "level",
    "min_length", "log_with",
}  # fmt: skip
READING = {"language": {"encoding"}, "signal": {"resample", "window_seconds", "standardize"}}


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_of_a_network_has_its_old_default(kind):
    task = TASKS[kind]
    reading = {one.name for own in task.options["evaluate"] for one in fields(own)}
    reading = READING.get(kind, set()) | (reading if kind != "language" else set())
    names = {one.name for one in fields(task.config)} - OF_THE_RUN - reading
    hint = "name a new option in own_data/before.py, with the value that turns it off"
    assert sets.OPTIONS[kind].keys() - {"valid_fraction"} == names, hint


def test_the_whole_set_has_the_defaults_of_fit_and_the_folds_of_its_file(root, tmp_path):
    made = sets.comparison("mutag", request(root, tmp_path, smoke=False))
    assert made.config == sets.GraphConfig(threads=1)
    folds = (root / "tu" / "MUTAG" / "fold.txt").read_text().splitlines()
    assert made.settings["folds"] == [int(fold or 0) - 1 for fold in folds]
    assert [*made.splits] == [0, 1]
    text = sets.comparison("sst-fine", request(root, tmp_path, smoke=False))
    assert text.config == sets.TextConfig(threads=1)
    assert text.has_fixed_test
    yahoo = sets.comparison("yahoo", request(root, tmp_path, smoke=False))
    assert (yahoo.config.text, yahoo.config.label, yahoo.config.header) == ("2", "1", False)


@pytest.mark.parametrize(("name", "epochs"), [("yahoo", 50), ("freesolv", 20), ("mutag", 50)])
def test_a_budget_is_a_fraction_of_the_epochs(root, tmp_path, name, epochs):
    made = sets.comparison(name, request(root, tmp_path, smoke=False, budget=0.5))
    assert made.config.epochs == epochs


def test_signals_leave_out_five_groups_of_subjects(root, tmp_path):
    made: Any = sets.comparison("arithmetic", request(root, tmp_path, smoke=False))
    assert made.config == sets.SignalConfig(threads=1)
    assert made.folds == 5
    assert made.data.recordings.sampling_rate == 160.0
    assert sets._SIGNAL_OPTIONS == {"alcoholism": {"standardize": "window"}}


def test_graphs_without_labels_of_their_own_have_none(tmp_path):
    write_graphs(tmp_path / "tu", "IMDB-BINARY", tags=False)
    made: Any = sets.comparison("imdb-binary", request(tmp_path, tmp_path / "out", smoke=False))
    assert all(graph.nodes is None for graph in made.sources["all"].objects)
    assert all(graph.edge_index.shape[0] == 2 for graph in made.sources["all"].objects)


def test_the_names_are_those_of_the_files():
    assert {name.replace("-", "_") for name in TEXTS} >= DOCUMENT_SETS.keys()
    assert [*RECIPE.datasets] == [*TEXTS, *GRAPHS, *MOLECULES, *SIGNALS, *LANGUAGE]
    assert RECIPE.seeds == (0, 1, 2, 3, 4)


def table(rows: Mapping[str, list[float]], metric: str = "accuracy") -> Table:
    """Return the table of five splits with the same losses, each of 20 examples of four kinds."""
    results = {
        name: {k: Result(name, losses * 20, 1.0, 320, name == "counts") for k in range(5)}
        for name, losses in rows.items()
    }

    class Made:
        has_fixed_test = False

    made: Any = Made()
    made.metric = metric
    return Table.of(made, results)


def test_the_sentence_counts_sets_by_the_intervals():
    above = table({"counts": [1, 1, 0, 0], "network": [1, 0, 0, 0], "both": [1, 0, 0, 0]})
    behind = table({"counts": [0, 0, 0, 0], "network": [1, 1, 0, 0], "both": [1, 0, 0, 0]})
    _, sentence = own_data._summary("text", {"ag-news": above, "yelp": behind})
    assert "in favor of `both` on 1 of 2 sets. The mean difference is +0.00 points. " in sentence
    assert sentence.endswith("excludes 0 against `both` on Yelp, five stars.")
    _, sentence = own_data._summary("graph", {"mutag": above})
    assert sentence.endswith("against `both` on none of them.")
    losses = table({"counts": [4.0, 5.0], "both": [1.0, 1.5]}, "rmse")
    _, sentence = own_data._summary("molecule", {"esol": losses})
    assert "on 1 of 1 sets. The interval" in sentence
    assert own_data._summary("graph", {"mutag": table({"counts": [0, 1]})}) == []


def test_a_row_shows_every_column_and_the_paired_differences():
    rows = {"counts": [1.0, 1, 0, 0], "kernel": [0.0, 0, 0, 0], "network": [1.0, 0, 0, 0],
            "network before": [1.0, 1, 1, 0], "both": [0.0, 1, 0, 0]}  # fmt: skip
    shown = own_data._cells("toy", table(rows))
    assert shown == [
        "toy", "counts: 50.00 ± 10.48", "100.00", "25.00 ± 9.07", "75.00 ± 9.07",
        "75.00 ± 9.07", "+25.00, +15.93 to +34.07", "-25.00, -34.07 to -15.93", "5",
    ]  # fmt: skip
    assert METRICS["accuracy"].score(float(np.mean(rows["both"]))) == 75.0
