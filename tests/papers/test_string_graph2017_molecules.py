"""The recipe of L17 Table 3: molecules, networks, runs, baselines, table."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
import torch
import torch.nn.functional as F
from scipy.stats import t
from sklearn.linear_model import Ridge

from representer.data.molecules import molecule_graph
from representer.storage.run import RunFolder
from representer.tasks.recipe import Request
from representer_papers.string_graph2017 import RECIPES, molecules
from representer_papers.string_graph2017.graph_sets import GraphStore
from representer_papers.string_graph2017.molecules import (
    DEPTH,
    FRACTIONS,
    LoopyBP,
    MoleculeNetwork,
    NeuralFingerprint,
    fitted,
    locate_molecules,
    read_molecule_set,
)
from representer_papers.string_graph2017.published import BY_NAME
from representer_papers.string_graph2017.published import MOLECULE_NETWORKS as NETWORKS

# The recipe of L17 Table 3: molecules, runs, baselines, table.

CELLS = ("wl-gated", "neural-fingerprint")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    chains = [f"{'C' * (1 + i // 6)}{('O', 'N', 'S', 'F', '=O', '#N')[i % 6]}" for i in range(66)]
    rows = [f"{text},{0.1 + len(text) / 3 + text.count('N'):.3f}" for text in chains]
    lines = ["smiles,PCE", "CCC,-1.5", "CCCC,0", *rows[:3], "C1CC,4.0", *rows[3:]]
    (root / "cep").mkdir()
    (root / "cep/cep-processed.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def request(folder, out, **changes):
    values = {"data": folder, "out": out, "smoke": True, "threads": 1, "cells": CELLS}
    return Request(**{**values, **changes})


@pytest.fixture(scope="session")
def done(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return out, RECIPES["graph-molecules"].run(request(folder, out, seeds=(0, 1)))


@pytest.fixture(scope="session")
def data(folder, done):
    return read_molecule_set(locate_molecules(folder), request(folder, done[0]))


def test_molecules_without_a_positive_pce_and_invalid_ones_are_dropped(data):
    assert len(data.store) == len(data.smiles) == 60
    assert data.store.y.min() > 0
    assert data.smiles[3] == "CF"


def test_the_split_and_the_graphs_are_stored(data, folder, done, monkeypatch):
    parts = (data.train, data.valid, data.test)
    assert sorted(np.concatenate(parts)) == list(range(60))
    assert [len(part) / 60 for part in parts] == pytest.approx(list(FRACTIONS), abs=0.02)
    monkeypatch.setattr(molecules, "molecule_graph", None)
    again = read_molecule_set(
        locate_molecules(folder), request(folder, done[0])
    )  # which makes no graph
    assert again.test.tolist() == data.test.tolist()
    assert torch.equal(again.store(data.test).x, data.store(data.test).x)


def test_rmse_covers_all_given_molecules(data):
    class Zero(torch.nn.Module):
        def forward(self, graphs):
            return torch.zeros_like(graphs.y)

    squares = data.store.y.double().square()
    assert molecules.rmse(Zero(), data.store, range(60)) == pytest.approx(math.sqrt(squares.mean()))
    assert molecules.rmse(Zero(), data.store, [1, 5]) == pytest.approx(
        math.sqrt((squares[1] + squares[5]) / 2)
    )


def test_the_last_weights_are_tested_and_the_learning_rate_decays(data, tmp_path, monkeypatch):
    made = []

    class Watched(molecules.Trainer):
        def __init__(self, model, task, config, *arguments, **options):
            made.append((model, config))
            super().__init__(model, task, config, *arguments, **options)

        def restore_best(self):
            pytest.fail("the authors' code tests the last weights")

    monkeypatch.setattr(molecules, "Trainer", Watched)
    chosen = molecules.molecule_settings("loopy-bp", 0, 1.0, True)
    with RunFolder(tmp_path / "run") as run:
        figures = molecules.run_network(1, run, chosen, data)
    ((model, config),) = made
    assert (config.lr, config.lr_decay, config.lr_decay_from, config.epochs) == (1e-3, 0.9, 1, 2)
    assert figures["test"]["rmse"] == molecules.rmse(model, data.store, data.test)
    assert figures["valid"]["rmse"] == molecules.rmse(model, data.store, data.valid)
    assert figures["parameters"] == sum(p.numel() for p in model.parameters())


def test_the_table_has_the_figures_of_every_run(done):
    out, table = done
    for row in CELLS:
        figures = json.loads((out / f"cep/{row}-seed1/metrics.json").read_text())
        assert figures["samples"] == 2 * 40
        assert math.isfinite(figures["test"]["rmse"])
    lines = table.read_text("utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith("| Weisfeiler-Lehman kernel NN, gated")]
    assert "| 0.1043 |" in row
    assert "| 80 of 5,100,000 |" in row
    assert any(
        line.startswith("| embedded loopy BP | – | 0.1065 | not run | not run |") for line in lines
    )
    assert any(line.startswith("| mean of the training part | 1 | 2.4062 |") for line in lines)
    assert any(line.startswith("Trained on 53 molecules, tested on 6") for line in lines)
    assert any(line.startswith("The gated network has the smaller") for line in lines)


def test_the_baselines_are_trained_on_the_training_part(data, done):
    rows = json.loads((done[0] / "cep/baselines.json").read_text())
    values = data.store.y.double().numpy()
    gap = values[data.test] - values[data.train].mean()
    assert rows[0]["rmse"] == pytest.approx(math.sqrt((gap**2).mean()))
    assert rows[1]["penalty"] in molecules.PENALTIES
    assert rows[1]["rmse"] < rows[0]["rmse"]


def test_the_penalty_of_ridge_is_chosen_by_validation_and_fitted_in_training():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(90, 12))
    y = x @ rng.normal(size=12) + rng.normal(size=90)
    x[60:] += rng.normal(size=(30, 12))  # the test part is noisier, and wants a larger penalty
    parts = {"train": np.arange(30), "valid": np.arange(30, 60), "test": np.arange(60, 90)}

    def rmse(penalty, part):
        model = Ridge(penalty).fit(x[:30], y[:30])
        return float(np.sqrt(np.mean((model.predict(x[parts[part]]) - y[parts[part]]) ** 2)))

    by_valid, by_test = (
        min(molecules.PENALTIES, key=lambda penalty: rmse(penalty, part))
        for part in ("valid", "test")
    )
    assert by_valid != by_test
    error, penalty = molecules.ridge(x, y, SimpleNamespace(**parts))
    assert penalty == by_valid
    assert error == pytest.approx(rmse(by_valid, "test"))


def figures(rmse):
    return {"test": {"rmse": rmse}}


# The learning curve of L17 Table 3: nested parts, and the line through the errors.


def test_a_power_law_is_continued():
    points = [(n, 3 * n**-0.25) for n in (100, 400, 1600, 1600)]
    line = fitted(points, 1_000_000)
    assert line.doubled == pytest.approx([2**-0.25] * 3)
    assert line.at == pytest.approx([3 * 1_000_000**-0.25] * 3)


def test_the_intervals_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    points = [(n, float(3 * n**-0.25 * np.exp(0.1 * rng.normal()))) for n in (50, 50, 400, 3200)]
    x, y = np.log(np.array(points)).T
    at = np.log(20_000)
    # the covariance of (slope, value at the point), from another implementation
    best, covariance = scipy.optimize.curve_fit(lambda x, b, v: v + b * (x - at), x, y)
    half = t.ppf(0.975, 2) * np.sqrt(np.diag(covariance))
    line = fitted(points, 20_000)
    for found, value, wide in ((line.doubled, best[0], half[0]), (line.at, best[1], half[1])):
        base = np.log(2) if found is line.doubled else 1.0
        shown = np.log(found) / base
        assert shown == pytest.approx([value - wide, value, value + wide], rel=1e-5)


@pytest.fixture(scope="module")
def request_(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    lines = [f"{'C' * (1 + i // 3)}{'ONS'[i % 3]},{1 + i / 9}" for i in range(40)]
    (root / "cep-processed.csv").write_text("smiles,PCE\n" + "\n".join(lines) + "\n", "utf-8")
    sets = ("cep", "cep-quarter", "cep-sixteenth")
    return Request(root, root / "out", smoke=True, threads=1, cells=("wl",), datasets=sets)


def test_the_command_writes_the_curve_below_the_table(request_):
    page = RECIPES["graph-molecules"].run(request_).read_text("utf-8")
    head = page[page.index("## Fewer molecules") :].split("\n\n")[2].splitlines()[0]
    assert head == "| | 2 | 8 | 35 | twice as many | 1,900,000 | L17 |"
    assert molecules.TRAINING == 1_900_000


# The networks of L17 Table 3: sizes, equations, initial weights.

SMILES = ["CC(=O)Oc1ccccc1", "C", "C1=CSC=C1[SiH3]", "CC#N"]


@pytest.fixture(scope="session")
def store():
    return GraphStore.of([molecule_graph(text) for text in SMILES], torch.arange(4.0))


def of_double(graphs):
    return graphs._replace(x=graphs.x.double(), edge_attr=graphs.edge_attr.double())


def test_the_rows_of_the_formula_have_its_readout_and_references():
    shared, levels = (MoleculeNetwork(row, 82, 6, NETWORKS[row].units) for row in BY_NAME)
    assert [model.body.layer.readout for model in (shared, levels)] == ["sum", "sum"]
    assert [len(model.body.layer.walks) for model in (shared, levels)] == [1, DEPTH]
    for model in (shared, levels):
        count = sum(parameter.numel() for parameter in model.parameters())
        assert round(count / 1e6, 2) == 0.26
        assert {layer.decay for layer in [model.body.layer]} == {"gated"}


def test_the_fingerprint_follows_its_equations(store):
    torch.manual_seed(0)
    net = NeuralFingerprint(82, 6, 5).double()
    graphs = of_double(store([0, 2]))
    h = graphs.x
    found = torch.zeros(2, 5, dtype=torch.float64)
    for W, V, S, norm, O in zip(  # noqa: E741  (the equations' letter)
        net.neighbors, net.bonds, net.own, net.norms, net.outputs, strict=True
    ):
        sums = []
        for v in range(len(h)):
            terms = [
                W.weight @ h[u] + V.weight @ e
                for u, w, e in zip(*graphs.edge_index, graphs.edge_attr, strict=True)
                if w == v
            ]
            sums.append(sum(terms) + S.weight @ h[v] + S.bias)
        z = torch.stack(sums)
        mean, var = z.mean(0), z.var(0, unbiased=False)
        h = F.relu((z - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias)
        for v in range(len(h)):
            found[graphs.batch[v]] += torch.softmax(O.weight @ h[v] + O.bias, dim=0)
    torch.testing.assert_close(net(graphs), found, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(net.eval()(graphs), found, rtol=1e-10, atol=1e-10)


def test_loopy_bp_follows_its_equations(store):
    torch.manual_seed(0)
    net = LoopyBP(82, 6, 5).double()
    graphs = of_double(store([2, 1]))
    f = graphs.x
    bonds = {
        (int(i), int(j)): e for i, j, e in zip(*graphs.edge_index, graphs.edge_attr, strict=True)
    }
    given = {ij: net.first.weight @ torch.cat((f[ij[0]], e)) for ij, e in bonds.items()}
    messages = {ij: F.relu(g) for ij, g in given.items()}
    zero = torch.zeros(5, dtype=torch.float64)
    for _ in range(3):
        messages = {
            (i, j): F.relu(
                given[i, j]
                + net.message.weight
                @ sum((m for (k, to), m in messages.items() if to == i and k != j), zero)
            )
            for i, j in bonds
        }
    found = torch.zeros(2, 5, dtype=torch.float64)
    for i in range(len(f)):
        reached = sum((m for (_, to), m in messages.items() if to == i), zero)
        found[graphs.batch[i]] += F.relu(net.atom.weight @ f[i] + net.output.weight @ reached)
    torch.testing.assert_close(net(graphs), found, rtol=1e-10, atol=1e-10)


def test_reverse_edges_are_found_in_any_order_of_edges(store):
    torch.manual_seed(0)
    net = LoopyBP(82, 6, 4)
    graphs = store(range(4))
    order = torch.randperm(graphs.edge_index.shape[1])
    mixed = graphs._replace(
        edge_index=graphs.edge_index[:, order], edge_attr=graphs.edge_attr[order]
    )
    torch.testing.assert_close(net(mixed), net(graphs))


def test_initial_weights_follow_the_authors(store):
    torch.manual_seed(0)
    layer = MoleculeNetwork("wl-gated", 82, 6, 175).body.layer
    relabeling, walks = layer.relabeling, layer.walks[0]
    stds = {
        relabeling.weight.chunk(2)[1]: 350**-0.5,  # U1 [h, sum]
        relabeling.neighbors: 350**-0.5,
        relabeling.weight.chunk(2)[0]: 181**-0.5,  # U2 [h, bond]
        relabeling.edge_weight: 181**-0.5,
        walks.weight: 175**-0.5,
        walks.edge_weight: 0.1,
        walks.gate_weight: 175**-0.5,
        layer.embedding: 0.1,
    }
    for weight, std in stds.items():
        assert weight.std().item() == pytest.approx(std, rel=0.06), weight.shape
    assert not relabeling.bias.any()
    assert not walks.gate_bias.any()
    network = MoleculeNetwork("neural-fingerprint", 82, 6, 145)
    assert all((norm.weight == 1).all() for norm in network.body.norms)
    assert network.head[0].weight.std().item() == pytest.approx(145**-0.5, rel=0.06)
    assert not network.head[2].bias.any()
