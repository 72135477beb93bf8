"""The networks on the outer folds: training, validation and test parts."""

from __future__ import annotations

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F

from papers.graph_files import write_graphs
from representer.storage.run import RunFolder
from representer_papers.string_graph2017 import graph_kernels
from representer_papers.string_graph2017.graph_kernels import (
    _run_fold,
    _store,
)
from representer_papers.string_graph2017.graph_sets import (
    locate_graphs,
    outer_folds,
    read_graph_set,
)


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return read_graph_set(locate_graphs(write_graphs(tmp_path_factory.mktemp("data")), ())[0])


def fold_of(data):
    return outer_folds(data.labels, data.folds, 0)[2]


def run_fold(data, out, epochs=3):
    settings = {"row": "walk-network", "seed": 0, "smoke": True, "epochs": epochs}
    with RunFolder(out / "fold") as folder:
        return _run_fold(folder, settings, _store(data), fold_of(data), 2, 1)


def test_the_test_fold_is_predicted_with_the_best_epoch(data, tmp_path, monkeypatch):
    recorded = []
    logits = graph_kernels._logits

    def record(model, store, numbers, *check):
        recorded.append((list(numbers), {k: v.clone() for k, v in model.state_dict().items()}))
        found = logits(model, store, numbers, *check)
        if 1 < len(recorded) <= 3:  # the second and third epoch predict all graphs wrongly
            found = -100.0 * F.one_hot(store.y[torch.as_tensor(numbers)], found.shape[1])
        return found

    monkeypatch.setattr(graph_kernels, "_logits", record)
    row = run_fold(data, tmp_path)
    numbers, weights = recorded.pop()
    fold = fold_of(data)
    assert numbers == fold.test.tolist()
    assert row["tested"] == len(fold.test)
    best = safetensors.torch.load_file(tmp_path / "fold/model.safetensors")
    for name, value in best.items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=0)
    final = safetensors.torch.load_file(tmp_path / "fold/final.safetensors")
    assert row["epoch"] == 1
    assert not torch.equal(final["output.weight"], best["output.weight"])
    chosen_by = {tuple(numbers) for numbers, _ in recorded}  # the same graphs in every epoch
    assert len(chosen_by) == 1
    assert set(chosen_by.pop()) < set(fold.train.tolist())


def test_every_outer_fold_has_its_own_run_folder(data, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(graph_kernels, "_run_fold", lambda *given: seen.append(given) or {})
    settings = {"row": "wl-network", "seed": 3, "smoke": False, "epochs": 1}
    folds = outer_folds(data.labels, data.folds, 3)
    with RunFolder(tmp_path / "run") as run:
        graph_kernels.tested_folds(run, settings, data, folds, 1)
    assert [(given[0].path.name, given[4]) for given in seen] == [
        (f"fold{k + 1}", k) for k in range(10)
    ]
    assert [given[3] for given in seen] == folds


def test_the_validation_part_is_not_trained_on(data, tmp_path, monkeypatch):
    seen = {}
    task = graph_kernels._task
    monkeypatch.setattr(
        graph_kernels, "_task", lambda *given: seen.update(given=given) or task(*given)
    )
    run_fold(data, tmp_path, epochs=1)
    store, train, valid, seed = seen["given"]
    assert sorted([*train, *valid]) == fold_of(data).train.tolist()
    assert len(valid) == pytest.approx(len(fold_of(data).train) / 9, abs=1)
    batches = task(store, train, valid, seed).batches(0)
    assert sorted(i for batch in batches for i in batch) == sorted(train)
    assert min(len(batch) for batch in batches) > 1
