"""The recipe of graph classification: data sets, runs, resumption, table."""

from __future__ import annotations

import json

import numpy as np
import pytest

from papers.graph_files import write_graphs
from representer.errors import DataError
from representer.kernels import RandomWalkKernel
from representer.tasks.recipe import Request
from representer_papers.string_graph2017 import RECIPES, graph_kernels
from representer_papers.string_graph2017 import graph_kernels as tables
from representer_papers.string_graph2017.graph_kernels import (
    count_correct,
    inner_accuracies,
    outer_folds,
)
from representer_papers.string_graph2017.graph_sets import locate_graphs, read_graph_set
from representer_papers.string_graph2017.published import GRAPH_SETS

GRAPH_KERNELS = RECIPES["graph-kernels"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    root = write_graphs(tmp_path_factory.mktemp("data") / "tu")
    write_graphs(root, "IMDB-BINARY", tags=False)
    return root.parent


def request(folder, out, **changes):
    values = {"data": folder, "out": out, "smoke": True, "threads": 1, "datasets": ("mutag",)}
    return Request(**{**values, **changes})


@pytest.fixture(scope="session")
def done(folder, tmp_path_factory):
    """One repeat and a half of some rows, and the table."""
    out = tmp_path_factory.mktemp("out")
    GRAPH_KERNELS.run(request(folder, out, cells=("walk", "levels", "levels-rbf", "wl-network")))
    return out, GRAPH_KERNELS.run(request(folder, out, cells=("walk",), seeds=(1,)))


def test_the_graphs_of_a_set_are_read(folder):
    (place,) = locate_graphs(folder, ("mutag",))
    data = read_graph_set(place)
    assert len(data.graphs) == 40
    assert sorted(set(data.labels)) == [0, 1]  # which the file calls 0 and 2
    assert not data.has_degrees
    assert data.graphs[1].x.tolist() == [[1], [2], [0], [1]]
    assert data.folds[0] == 0


def test_degrees_replace_labels_that_are_all_equal(folder):
    data = read_graph_set(locate_graphs(folder / "tu", ("imdb-b",))[0])
    assert data.has_degrees
    assert data.graphs[0].x.tolist() == [[1], [2], [1]]
    assert data.graphs[1].x.tolist() == [[2]] * 4


@pytest.mark.slow
def test_every_row_has_results_of_all_folds(done):
    out, table = done
    for row in ("walk", "levels", "levels-rbf", "wl-network"):
        folds = json.loads((out / f"mutag/{row}-seed0/metrics.json").read_text())["folds"]
        assert sum(fold["tested"] for fold in folds) == 39  # one graph is in no test fold
        assert all(0 <= fold["right"] <= fold["tested"] for fold in folds)
    lines = table.read_text(encoding="utf-8").splitlines()
    (walk,) = [line for line in lines if line.startswith("| walks of n nodes |") and ";" in line]
    assert walk.endswith("; 2) |")
    (levels,) = [line for line in lines if line.startswith("| walks of 1") and "; " in line]
    assert levels.endswith("; 1) |")
    assert any(line.startswith("| Weisfeiler-Lehman subtree | not run |") for line in lines)
    assert any("*GIN-0*" in line and line.endswith("| 89.4 |") for line in lines)


@pytest.mark.slow
def test_summed_levels_distinguish_paths_from_rings(done):
    folds = json.loads((done[0] / "mutag/levels-seed0/metrics.json").read_text())["folds"]
    assert sum(fold["right"] for fold in folds) >= 36


@pytest.mark.slow
def test_the_selected_kernel_is_tested(folder, done):
    out, data = done[0], read_graph_set(locate_graphs(folder, ("mutag",))[0])
    for seed in (0, 1):
        rows = json.loads((out / f"mutag/walk-seed{seed}/metrics.json").read_text())["folds"]
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
    monkeypatch.setattr(graph_kernels, "LARGE", large)
    monkeypatch.setattr(graph_kernels, "inner_accuracies", lambda *given: [given[3], 0, 0, 0])
    GRAPH_KERNELS.run(request(folder, tmp_path, smoke=False, cells=("walk",)))
    run = json.loads((tmp_path / "mutag/walk-seed0/metrics.json").read_text())
    assert run["inner folds"] == inner
    assert {fold["inner accuracy"] for fold in run["folds"]} == {inner}


@pytest.mark.parametrize(("budget", "epochs"), [(1.0, 200), (0.4, 80), (0.001, 1)])
def test_the_budget_is_a_fraction_of_the_epochs_of_a_network(
    folder, tmp_path, monkeypatch, budget, epochs
):
    seen = []
    monkeypatch.setattr(
        graph_kernels, "tested_folds", lambda run, settings, *rest: seen.append(settings) or []
    )
    monkeypatch.setattr(graph_kernels, "_write_table", lambda *given: tmp_path)
    asked = request(folder, tmp_path, smoke=False, cells=("wl-network",), budget=budget, seeds=(3,))
    GRAPH_KERNELS.run(asked)
    GRAPH_KERNELS.run(asked)  # it is finished
    assert [(own["epochs"], own["seed"], own["row"]) for own in seen] == [(epochs, 3, "wl-network")]


@pytest.mark.slow
def test_an_interrupted_run_keeps_its_inner_folds(folder, done, monkeypatch):
    out = done[0]
    path = out / "mutag/levels-seed0/metrics.json"
    before = path.read_text()
    path.unlink()
    failure = lambda *_: pytest.fail("the inner folds are run again")  # noqa: E731
    monkeypatch.setattr(graph_kernels, "inner_accuracies", failure)
    GRAPH_KERNELS.run(request(folder, out, cells=("levels",)))
    assert path.read_text() == before


def test_the_error_for_a_missing_data_set_names_its_file(folder, tmp_path):
    with pytest.raises(DataError, match=r"there is no NCI1/NCI1.txt, nor tu/NCI1"):
        GRAPH_KERNELS.run(request(folder, tmp_path, datasets=("nci1",)))
    write_graphs(tmp_path)
    (tmp_path / "MUTAG/fold.txt").unlink()
    with pytest.raises(DataError, match=r"there is no fold.txt in its folder"):
        GRAPH_KERNELS.run(request(tmp_path, tmp_path))


def test_a_file_with_fewer_than_ten_folds_is_refused(tmp_path):
    write_graphs(tmp_path, count=12)
    with pytest.raises(DataError, match=r"fold.txt: has no fold 7; there must be 1 … 10"):
        read_graph_set(locate_graphs(tmp_path, ())[0])


def repeat(*shares):
    return {"folds": [{"right": share, "tested": 100} for share in shares]}


def test_the_table_shows_deviations_over_repeats_and_folds():
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
