"""Shared by recipes: baselines, orders, stores of graphs."""

from __future__ import annotations

import csv
import json
import lzma
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch, Data

from representer.errors import TrainingError
from representer.machine import processor
from representer.options.text import TextConfig
from representer.storage.run import RunFolder
from representer.tasks.recipe import Request
from representer.tasks.text import FLOW
from representer_papers.shared.datasets import (
    SMOKE_ROWS,
    for_smoke,
    read_baselines,
    write_baselines,
)
from representer_papers.shared.tables import (
    Measure,
    Run,
    order_lines,
    run_missing,
    stored,
    write_page,
)
from representer_papers.string_graph2017.graph_sets import GraphStore

# The stored baselines of a split.


def test_stored_baselines_have_their_predictions_and_sizes(data, tmp_path):
    folder = data / "ag_news_csv"
    config = TextConfig(
        data=str(folder / "train.csv"), test=str(folder / "test.csv"), header=False, text="2,3",
        label="1", valid_fraction=0.2,
    )  # fmt: skip
    prepared, path = FLOW.prepare(config), tmp_path / "baselines.json"
    write_baselines(path, prepared)
    tfidf, svm, majority = read_baselines(path)
    assert "linear SVM" in svm.name
    # every text has a word that determines its class
    assert tfidf.predictions.tolist() == prepared.values["test"].tolist()
    assert len(set(majority.predictions.tolist())) == 1
    written = json.loads(path.read_text())
    assert written["sizes"] == {"train": 24, "valid": 6, "test": 10}
    assert written["baselines"][2]["accuracy"] == pytest.approx(0.5)


# Batches of a graph store equal those of PyG.


def graphs(has_features):
    generator = torch.Generator().manual_seed(0)
    made = []
    for nodes, edges in ((3, 4), (1, 0), (5, 9), (2, 2)):
        ends = torch.randint(nodes, (2, edges), generator=generator)
        features = torch.randint(2, (edges, 2), generator=generator).float()
        x = torch.randint(2, (nodes, 3), generator=generator).float()
        made.append(Data(x=x, edge_index=ends, edge_attr=features if has_features else None))
    return made


@pytest.mark.parametrize("has_features", [True, False])
@pytest.mark.parametrize("chosen", [[2, 0, 3], [1], [1, 1, 2], [3, 1, 0, 2]])
def test_a_batch_equals_that_of_pyg(has_features, chosen):
    made = graphs(has_features)
    store = GraphStore(GraphStore.of(made, torch.arange(4.0)).tensors())
    ours, theirs = store(chosen), Batch.from_data_list([made[i] for i in chosen])
    for name in ("x", "edge_index", "edge_attr", "batch"):
        first, second = getattr(ours, name), getattr(theirs, name)
        assert (first is None and second is None) or torch.equal(first, second), name
    assert ours.y.tolist() == chosen
    assert (len(store), store.features) == (4, 3)


# The comparison of rankings: correlation, pairs that differ, and when nothing is reported.


PAPER = {"A": 3.0, "B": 2.0, "C": 1.0}


def by_seed(**figures):
    return {cell: dict(enumerate(values)) for cell, values in figures.items()}


@pytest.mark.parametrize(("figures", "said"), [
    ({"A": [0.1], "B": [0.2], "C": [0.3]},  # of one seed: no test
     ["the paper's order is A > B > C; ours C > B > A", "Spearman's rank correlation -1.00."]),
    ({"A": [0.9, 0.91, 0.92], "B": [0.5, 0.52, 0.51], "C": [0.501, 0.519, 0.513]},
     ["ours A > C > B", "correlation 0.50.",
      "Of 3 pairs of cells, 2 differ by the paired t-test over 3 seeds (p < 0.05)",
      ", 2 of them as in the paper."]),
    ({"A": [0.1, 0.11, 0.12], "B": [0.5, 0.5, 0.5], "C": [0.5, 0.5, 0.5]},
     ["2 differ", ", 0 of them as in the paper."]),
])  # fmt: skip
def test_orders_are_compared_by_their_correlation_and_the_pairs_that_differ(figures, said):
    (_, line) = order_lines("1-gram", PAPER, by_seed(**figures))
    assert all(part in line for part in said)
    assert line.endswith(said[-1])


def test_seeds_are_paired_by_their_number():
    ours = {"A": {0: 0.10, 1: 0.50, 2: 0.90}, "B": {2: 0.89, 1: 0.488, 0: 0.09}}
    (_, line) = order_lines("x", {"A": 2.0, "B": 1.0}, ours)
    assert "1 differ" in line  # by 1, 1.2 and 1 points; in the listed order, by -79, 1.2 and 81


def test_nothing_is_reported_while_runs_are_missing():
    assert order_lines("1-gram", PAPER, by_seed(A=[0.1], B=[0.2])) == []
    assert order_lines("1-gram", PAPER, by_seed(A=[0.1], B=[0.2, 0.3], C=[0.3])) == []
    assert order_lines("1-gram", PAPER, by_seed(A=[], B=[], C=[])) == []
    assert order_lines("1-gram", {}, {}) == []


# The runs of a table: finished, resumed and refused ones.


MEASURE = Measure("recipe", "figure", lambda _: None, "steps")


@dataclass(frozen=True)
class Config:
    name: str
    steps: int = 2
    seed: int = 0
    threads: int = 1


class Trainer:
    """Trains nothing, and keeps a record of what it was called for."""

    def __init__(self) -> None:
        self.loaded, self.trained = 0, []

    def load(self) -> str:
        self.loaded += 1
        return "data"

    def train(self, folder: RunFolder, config: Config, data: str) -> dict:
        self.trained.append((config.name, config.steps, data))
        if config.name == "diverges":
            raise TrainingError("the loss is not finite")
        stopped_by = "patience" if config.name == "converges" else "steps"
        return {"steps": config.steps, "stopped_by": stopped_by}


def runs_of(out, *configs: Config, length: str = "steps") -> list[Run[Config]]:
    return [Run(out / config.name, config, length) for config in configs]


def go(out, *configs: Config, **options) -> Trainer:
    trainer = Trainer()
    request = Request(out, out)
    run_missing(request, MEASURE, runs_of(out, *configs), trainer.load, trainer.train, **options)
    return trainer


def test_data_is_read_once_and_a_finished_run_is_kept(tmp_path):
    first = go(tmp_path, Config("a"), Config("b"))
    assert first.loaded == 1
    assert first.trained == [("a", 2, "data"), ("b", 2, "data")]
    again = go(tmp_path, Config("a", threads=4), Config("b"))  # threads change no result
    assert (again.loaded, again.trained) == (0, [])
    assert go(tmp_path, Config("a"), Config("c")).trained == [("c", 2, "data")]


def test_a_larger_length_resumes_runs_that_it_stopped(tmp_path):
    go(tmp_path, Config("a"), Config("converges"))
    assert go(tmp_path, Config("a", 3), Config("converges", 3)).trained == [("a", 3, "data")]
    assert json.loads((tmp_path / "a/recipe.json").read_text())["steps"] == 3
    assert go(tmp_path, Config("a", 2)).trained == []  # a longer run counts


def test_a_page_says_how_long_its_runs_took_and_how_many_were_resumed(tmp_path):
    request = Request(tmp_path, tmp_path, command="representer")
    assert "Training:" not in write_page(request, "Title", []).read_text("utf-8")
    go(tmp_path, Config("a"), Config("b"))
    times = [json.loads((tmp_path / name / "machine.json").read_text()) for name in "ab"]
    assert all(time["chip"] == processor() and 0 < time["seconds"] < 60 for time in times)
    text = write_page(request, "Title", []).read_text("utf-8")
    assert "Training: 2 runs in 0.00 hours on" in text  # metrics that do not say how long
    go(tmp_path, Config("a", 3), Config("b"))  # a goes on
    for name, seconds in (("a", 3000), ("b", 2400)):
        (tmp_path / name / "metrics.json").write_text(json.dumps({"seconds": seconds}))
    text = write_page(request, "Title", ["About."]).read_text("utf-8")
    assert f"Training: 2 runs in 1.50 hours on {processor()}, the last on 20" in text
    assert "; 1 of them interrupted and resumed.\nAbout." in text
    again = json.loads((tmp_path / "a/machine.json").read_text())
    assert again["seconds"] > times[0]["seconds"]
    (tmp_path / "a/machine.json").write_text('{"chip": "A chip", "seconds": 1}')
    text = write_page(request, "Title", ["About."]).read_text("utf-8")
    assert f"hours on {' and '.join(sorted(('A chip', processor())))}, the last on" in text


def test_a_run_that_diverges_or_is_in_use_does_not_stop_the_others(tmp_path, capsys):
    with RunFolder(tmp_path / "busy"):
        go(tmp_path, Config("diverges"), Config("busy"), Config("a"))
    assert (tmp_path / "a/metrics.json").exists()
    said = capsys.readouterr().out
    assert "diverges: the loss is not finite" in said
    assert "skipped: " in said
    states = {run.folder.name: run.metrics is not None for run in stored(tmp_path)}
    assert states == {"a": True, "diverges": False}


def test_files_beside_the_runs_are_written_first_and_once(tmp_path):
    path, written = tmp_path / "beside/baselines.json", []

    def write(path, data):
        assert not (tmp_path / "a").exists()
        written.append(data)
        path.write_text("{}")

    go(tmp_path, Config("a"), beside={path: write})
    go(tmp_path, Config("a"), beside={path: write})
    assert written == ["data"]
    path.unlink()
    assert go(tmp_path, beside={path: lambda path, data: path.write_text("")}).loaded == 1


def test_a_smoke_run_has_parts_of_the_files_and_any_other_run_all(tmp_path: Path):
    @dataclass(frozen=True)
    class Files:
        name: str
        train: Path
        test: Path

    cells = [[str(row % 4), f"row {row}\nof two lines"] for row in range(4 * SMOKE_ROWS)]
    with (tmp_path / "train.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(cells)
    with lzma.open(tmp_path / "test.txt.xz", "wt", encoding="utf-8") as file:
        file.writelines(f"{row}\n" for row in range(SMOKE_ROWS + 1))
    files = Files("name", tmp_path / "train.csv", tmp_path / "test.txt.xz")
    request = Request(tmp_path, tmp_path / "out")
    assert for_smoke(request, "set", files) is files
    few = for_smoke(replace(request, smoke=True), "set", files)
    assert (few.name, few.test) == ("name", tmp_path / "out/data/set/test.txt")
    with few.train.open(encoding="utf-8", newline="") as file:
        assert [*csv.reader(file)] == cells[::4]
    assert few.test.read_text("utf-8").split() == [str(row) for row in range(0, SMOKE_ROWS + 1, 2)]
