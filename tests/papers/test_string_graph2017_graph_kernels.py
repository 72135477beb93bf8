"""The recipe of graph classification: data sets, runs, the table, going on, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from papers.graph_files import write_graphs
from representer.cli.main import entry_point
from representer.errors import ArgumentError, DataError
from representer.kernels import RandomWalkKernel
from representer.tasks.recipe import Request
from representer_papers.string_graph2017 import graph_kernels
from representer_papers.string_graph2017 import graph_kernels_table as tables
from representer_papers.string_graph2017.graph_kernels import GRAPH_KERNELS
from representer_papers.string_graph2017.graph_sets import FAMILIES, GRAPH_SETS, locate, read
from representer_papers.string_graph2017.nested_folds import (
    count_correct,
    inner_accuracies,
    outer_folds,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = write_graphs(tmp_path_factory.mktemp("data") / "tu")
    write_graphs(root, "IMDB-BINARY", tags=False)
    return root.parent


def request(folder, out, **changes):
    values = {"data": folder, "out": out, "smoke": True, "threads": 1, "datasets": ("mutag",)}
    return Request(**{**values, **changes})


@pytest.fixture(scope="module")
def done(folder, tmp_path_factory):
    """One repeat and a half of some rows, and the table."""
    out = tmp_path_factory.mktemp("out")
    GRAPH_KERNELS.run(request(folder, out, cells=("walk", "levels", "levels-rbf", "wl-network")))
    return out, GRAPH_KERNELS.run(request(folder, out, cells=("walk",), seeds=(1,)))


def test_the_graphs_of_a_set_are_read(folder):
    (place,) = locate(folder, ("mutag",))
    data = read(place)
    assert len(data.graphs) == 40
    assert sorted(set(data.labels)) == [0, 1]  # which the file calls 0 and 2
    assert not data.has_degrees
    assert data.graphs[1].x.tolist() == [[1], [2], [0], [1]]
    assert data.folds[0] == 0


def test_degrees_stand_for_labels_that_are_all_the_same(folder):
    data = read(locate(folder / "tu", ("imdb-b",))[0])
    assert data.has_degrees
    assert data.graphs[0].x.tolist() == [[1], [2], [1]]
    assert data.graphs[1].x.tolist() == [[2]] * 4


def test_every_row_has_all_folds(done):
    out, table = done
    for row in ("walk", "levels", "levels-rbf", "wl-network"):
        folds = json.loads((out / f"mutag/seed0/{row}.json").read_text())["folds"]
        assert sum(fold["tested"] for fold in folds) == 39  # one graph is in no test fold
        assert all(0 <= fold["right"] <= fold["tested"] for fold in folds)
    lines = table.read_text(encoding="utf-8").splitlines()
    (walk,) = [line for line in lines if line.startswith("| walks of n nodes |") and ";" in line]
    assert walk.endswith("; 2) |")
    (levels,) = [line for line in lines if line.startswith("| walks of 1") and "; " in line]
    assert levels.endswith("; 1) |")
    assert any(line.startswith("| Weisfeiler-Lehman subtree | not run |") for line in lines)
    assert any("*GIN-0*" in line and line.endswith("| 89.4 |") for line in lines)


def test_paths_and_rings_are_distinguished_by_summed_levels(done):
    folds = json.loads((done[0] / "mutag/seed0/levels.json").read_text())["folds"]
    assert sum(fold["right"] for fold in folds) >= 36


def test_the_kernel_that_was_chosen_is_the_one_tested(folder, done):
    out, data = done[0], read(locate(folder, ("mutag",))[0])
    for seed in (0, 1):
        rows = json.loads((out / f"mutag/seed{seed}/walk.json").read_text())["folds"]
        for row, fold in zip(rows, outer_folds(data.labels, data.folds, seed), strict=True):
            order = int(row["kernel"].removeprefix("n="))
            K = np.asarray(RandomWalkKernel(order, base="delta").cosine()(data.graphs))
            assert row["right"] == count_correct(K, data.labels, fold, row["C"])
            inner = inner_accuracies(K, data.labels, fold.train, 2, seed)
            assert row["inner accuracy"] == max(inner)
        assert {row["kernel"] for row in rows} != {"n=1"}


@pytest.mark.parametrize(("large", "inner"), [(40, 3), (41, 5)])
def test_large_sets_have_three_inner_folds_and_others_five(
    folder, tmp_path, monkeypatch, large, inner
):
    made = []

    class Repeat:
        def __init__(self, request, dataset, data, folder, seed, inner):
            made.append((seed, inner))

        def run(self, row, grams):
            pass

    monkeypatch.setattr(graph_kernels, "_Repeat", Repeat)
    monkeypatch.setattr(graph_kernels, "LARGE", large)
    GRAPH_KERNELS.run(request(folder, tmp_path, smoke=False, cells=("walk",), seeds=(0, 2)))
    assert made == [(0, inner), (2, inner)]
    settings = json.loads((tmp_path / "mutag/seed2/settings.json").read_text())
    assert settings["inner folds"] == inner


def test_what_is_there_is_not_run_again(folder, done):
    out, table = done
    before = table.read_text("utf-8").splitlines()[4:]
    files = {p: p.stat().st_mtime_ns for p in out.rglob("*.json") if p.name != "settings.json"}
    cells = ("walk", "levels", "levels-rbf", "wl-network")
    again = GRAPH_KERNELS.run(request(folder, out, cells=cells))
    assert again.read_text("utf-8").splitlines()[4:] == before
    assert {p: p.stat().st_mtime_ns for p in files} == files


def test_a_killed_repeat_continues_from_its_inner_folds(folder, done, monkeypatch):
    out = done[0]
    path = out / "mutag/seed0/levels.json"
    before = path.read_text()
    path.unlink()
    module = "representer_papers.string_graph2017.nested_folds.inner_accuracies"
    monkeypatch.setattr(module, lambda *_: pytest.fail("the inner folds are run again"))
    GRAPH_KERNELS.run(request(folder, out, cells=("levels",)))
    assert path.read_text() == before


def test_results_of_other_settings_are_refused(folder, done):
    with pytest.raises(ArgumentError, match=r"Its inner folds is 2; choose another --out"):
        GRAPH_KERNELS.run(request(folder, done[0], smoke=False, cells=("walk",)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cells": ("gcn",)}, "cells is 'gcn'; expected some of walk, walk-inverse"),
        ({"preset": "authors_code"}, "preset is 'authors_code'; expected 'paper'"),
        ({"datasets": ("dd",)}, "datasets is 'dd'; expected some of mutag"),
        ({"vectors": "a.txt"}, "vectors is 'a.txt'; expected nothing"),
        ({"filter_lengths": (2,)}, "filter_lengths is"),
    ],
)
def test_what_the_table_does_not_have_is_refused(folder, tmp_path, changes, message):
    with pytest.raises(ArgumentError, match=message):
        GRAPH_KERNELS.run(request(folder, tmp_path, **changes))


def test_a_missing_set_says_where_it_should_be(folder, tmp_path):
    with pytest.raises(DataError, match=r"there is no NCI1/NCI1.txt, nor tu/NCI1"):
        GRAPH_KERNELS.run(request(folder, tmp_path, datasets=("nci1",)))
    write_graphs(tmp_path)
    (tmp_path / "MUTAG/fold.txt").unlink()
    with pytest.raises(DataError, match=r"there is no fold.txt in its folder"):
        GRAPH_KERNELS.run(request(tmp_path, tmp_path))


def test_folds_that_are_not_ten_are_refused(tmp_path):
    write_graphs(tmp_path, count=12)
    with pytest.raises(DataError, match=r"fold.txt: has no fold 7; there must be 1 … 10"):
        read(locate(tmp_path, ())[0])


def repeat(*shares):
    return {"folds": [{"right": share, "tested": 100} for share in shares]}


def test_the_table_has_means_and_both_spreads():
    results = [repeat(80, 90), repeat(84, 70)]
    assert tables._cell(results[:1]) == "85.0 (folds ± 7.1; 1)"
    assert tables._cell(results) == "81.0 ± 5.7 (folds ± 8.5; 2)"
    found = {
        ("wl-rbf", "mutag"): dict(enumerate(results)),
        ("wl", "mutag"): {1: repeat(80, 70), 0: repeat(79, 87), 2: repeat(1, 1)},
    }
    gaps = tables._gaps(found, "wl-rbf", "wl", "mutag")
    assert gaps == pytest.approx([1, 3, 4, 0])
    assert tables._gap(gaps) == "+2.0 ± 0.9"
    assert tables._gap(tables._gaps(found, "walk-rbf", "walk", "mutag")) == "–"
    lines = tables._comparison(found, [GRAPH_SETS["mutag"], GRAPH_SETS["nci1"]])
    (line,) = [line for line in lines if line.startswith("| RBF over Weisfeiler-Lehman, minus")]
    assert line.endswith("| +2.0 ± 0.9 | – | 1 of 1 |")


def test_published_figures_name_their_source():
    assert GRAPH_KERNELS.reported["GIN-0", "imdb-b"].value == 75.1
    assert "ICLR 2019" in GRAPH_KERNELS.reported["GIN-0", "mutag"].source
    assert {name: s.graphs for name, s in GRAPH_SETS.items()} == {
        "mutag": 188, "proteins": 1_113, "nci1": 4_110, "imdb-b": 1_000,
    }  # fmt: skip


def test_the_command_runs_it(folder, done, capsys):
    words = ["reproduce", "graph-kernels", "--data", str(folder), "--smoke", "--threads", "1"]
    assert entry_point([*words, "--datasets", "mutag", "--table-only", "--out", str(done[0])]) == 0
    out = capsys.readouterr().out
    assert all(title in out for title in FAMILIES.values())
