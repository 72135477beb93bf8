"""The networks of L17 Table 3: sizes, equations, initial weights."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from representer.data.molecules import molecule_graph
from representer_papers.string_graph2017.graph_sets import GraphStore
from representer_papers.string_graph2017.molecules import (
    DEPTH,
    LoopyBP,
    MoleculeNetwork,
    NeuralFingerprint,
)
from representer_papers.string_graph2017.published import BY_NAME
from representer_papers.string_graph2017.published import MOLECULE_NETWORKS as NETWORKS

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
