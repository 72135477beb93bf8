"""The networks on the outer folds: what trains, what chooses the epoch, what is tested."""

from __future__ import annotations

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from torch_geometric.data import Data

from papers.graph_files import write_graphs
from representer.storage.run_folder import RunFolder
from representer.tasks.recipe import Request
from representer_papers.string_graph2017 import graph_networks
from representer_papers.string_graph2017.graph_networks import GraphClassifier, _run_fold, _store
from representer_papers.string_graph2017.graph_sets import locate, read
from representer_papers.string_graph2017.nested_folds import outer_folds


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return read(locate(write_graphs(tmp_path_factory.mktemp("data")), ())[0])


def fold_of(data):
    return outer_folds(data.labels, data.folds, 0)[2]


def run_fold(data, out, epochs=3):
    request = Request(data=out, out=out, smoke=True, threads=1)
    with RunFolder(out / "fold") as folder:
        return _run_fold(folder, request, "walk-network", _store(data), fold_of(data), 0, 2, epochs)


def test_the_test_fold_is_answered_by_the_best_epoch(data, tmp_path, monkeypatch):
    asked = []
    logits = graph_networks._logits

    def record(model, store, numbers, *check):
        asked.append((list(numbers), {k: v.clone() for k, v in model.state_dict().items()}))
        found = logits(model, store, numbers, *check)
        if 1 < len(asked) <= 3:  # the second and third epoch answer all wrongly
            found = -100.0 * F.one_hot(store.y[torch.as_tensor(numbers)], found.shape[1])
        return found

    monkeypatch.setattr(graph_networks, "_logits", record)
    row = run_fold(data, tmp_path)
    numbers, weights = asked.pop()
    fold = fold_of(data)
    assert numbers == fold.test.tolist()
    assert row["tested"] == len(fold.test)
    best = safetensors.torch.load_file(tmp_path / "fold/model.safetensors")
    for name, value in best.items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=0)
    final = safetensors.torch.load_file(tmp_path / "fold/final.safetensors")
    assert row["epoch"] == 1
    assert not torch.equal(final["output.weight"], best["output.weight"])
    chosen_by = {tuple(numbers) for numbers, _ in asked}  # the same graphs in every epoch
    assert len(chosen_by) == 1
    assert set(chosen_by.pop()) < set(fold.train.tolist())


@pytest.mark.parametrize(("budget", "epochs"), [(1.0, 200), (0.4, 80), (0.001, 1)])
def test_the_budget_is_a_fraction_of_the_epochs(data, tmp_path, monkeypatch, budget, epochs):
    seen, row = [], {"right": 1, "tested": 2, "epoch": 1}
    monkeypatch.setattr(graph_networks, "_run_fold", lambda *given: seen.append(given) or row)
    request = Request(tmp_path, tmp_path, budget, threads=1)
    graph_networks.run_network(request, "wl-network", data, tmp_path, 3)
    assert [given[-3:] for given in seen] == [(3, k, epochs) for k in range(10)]
    folds = outer_folds(data.labels, data.folds, 3)
    assert [given[4].test.tolist() for given in seen] == [fold.test.tolist() for fold in folds]


def test_the_validation_part_is_not_trained_on(data, tmp_path, monkeypatch):
    seen = {}
    task = graph_networks._task
    monkeypatch.setattr(
        graph_networks, "_task", lambda *given: seen.update(given=given) or task(*given)
    )
    run_fold(data, tmp_path, epochs=1)
    store, train, valid, seed = seen["given"]
    assert sorted([*train, *valid]) == fold_of(data).train.tolist()
    assert len(valid) == pytest.approx(len(fold_of(data).train) / 9, abs=1)
    batches = task(store, train, valid, seed).batches(0)
    assert sorted(i for batch in batches for i in batch) == sorted(train)
    assert min(len(batch) for batch in batches) > 1


@pytest.mark.parametrize("row", ["walk-network", "wl-network"])
def test_a_network_does_not_see_the_order_of_nodes(row):
    torch.manual_seed(0)
    model = GraphClassifier(row, 3, 2, 5).eval()
    path = Data(x=torch.tensor([[0.0], [2], [1]]), edge_index=torch.tensor([[0, 1], [1, 2]]))
    turned = Data(x=torch.tensor([[1.0], [2], [0]]), edge_index=torch.tensor([[2, 1], [1, 0]]))
    other = Data(x=torch.tensor([[1.0], [2], [0]]), edge_index=torch.tensor([[0, 1], [1, 2]]))
    data = type("Read", (), {"graphs": [path, turned, other], "labels": np.array([0, 0, 1])})
    first, second, third = model(_store(data)(range(3)))
    torch.testing.assert_close(first, second)
    assert not torch.allclose(first, third)
