"""The Weisfeiler-Lehman layer: the authors' code, and its options."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from looped import looped
from representer.explain import walk_readout
from representer.nn import WLKernelNN

F64 = torch.float64


def test_options_reproduce_the_authors_code():
    """h = relu(A f); K_v = (sum 10 sigma(..) * P h_u * Q b) * S h_v in the last of four rounds."""
    net = WLKernelNN(
        5, 4, edge_dim=2, decay="gated", label_channels=4, sigma="relu", readout="last",
        gate_scale=10.0, dtype=F64,
    )  # fmt: skip
    torch.manual_seed(0)
    f, ends = torch.randn(6, 5, dtype=F64), torch.randint(0, 6, (2, 8))
    b = torch.randn(8, 2, dtype=F64)
    w, r = net.walks[0], net.relabeling
    torch.nn.init.normal_(w.gate_bias)
    torch.nn.init.normal_(r.bias)
    (P, S), (Q,), (G1, G3), G2 = w.nodes, w.edges, w.gates, w.gate_edge
    (V, U1), U2, B = r.weight.chunk(2), r.neighbors, r.edge_weight
    b_in, b_out = r.bias.chunk(2)
    h = (f @ net.embedding.T).relu()
    for level in range(4):
        K, sums = torch.zeros(6, 4, dtype=F64), torch.zeros(6, 4, dtype=F64)
        for (u, v), bond in zip(ends.T.tolist(), b, strict=True):
            gate = 10 * torch.sigmoid(G1 @ h[u] + G2 @ bond + G3 @ h[v] + w.gate_bias)
            K[v] += gate * (P @ h[u]) * (Q @ bond) * (S @ h[v])
            sums[v] += (V @ h[u] + B @ bond + b_in).relu()
        if level < 3:
            h = (h @ U1.T + sums @ U2.T + b_out).relu()
    found = net(f, ends, b)
    torch.testing.assert_close(found, K.sum(0, keepdim=True), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("order", [1, 2, 3])
@looped("readout", ["sum", "last"])
@looped("decay", [0.5, "learned", "gated"])
def test_the_fused_rounds_match_the_rounds_one_by_one(decay, readout, order):
    torch.manual_seed(0)
    net = WLKernelNN(3, 4, 3, order, decay, edge_dim=2, readout=readout, gate_scale=2.0, dtype=F64)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    arguments = (
        torch.randn(6, 3, dtype=F64), torch.randint(0, 6, (2, 11)), torch.randn(11, 2, dtype=F64)
    )  # fmt: skip
    found = []
    for y in (net(*arguments)[0], net.node_states(*arguments)[:, -1].sum(0)):
        gradients = torch.autograd.grad(y.cos().sum(), list(net.parameters()), allow_unused=True)
        found.append((y, [torch.zeros(()) if g is None else g.abs().sum() for g in gradients]))
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10, check_dtype=False)


def test_labels_and_levels_can_be_inspected():
    net = WLKernelNN(3, 4, depth=3, label_channels=0, dtype=F64)
    x, ends = torch.randn(5, 3, dtype=F64), torch.randint(0, 5, (2, 9))
    assert torch.equal(net.labels(x, ends), x)
    assert torch.equal(net.labels(x, ends, level=1), net.relabeling(x, ends))
    levels = [net.node_states(x, ends, level=i) for i in range(3)]
    torch.testing.assert_close(net.node_states(x, ends), sum(levels))
    assert torch.equal(net.node_states(x, ends, level=-1), levels[2])
    assert net.references().shape == (4, 2, 3)
    assert WLKernelNN(3, 4, label_channels=7).references().shape == (4, 2, 7)
    assert WLKernelNN(3, 4).references().shape == (4, 2, 4)


def test_normalized_labels_have_mean_0_and_variance_1_at_every_level():
    torch.manual_seed(0)
    net = WLKernelNN(3, 4, 3, normalize=True, edge_dim=2, dtype=F64)
    x, ends, bonds = (
        torch.randn(9, 3, dtype=F64), torch.randint(0, 9, (2, 20)), torch.randn(20, 2, dtype=F64)
    )  # fmt: skip
    for level in range(3):
        labels = net.labels(x, ends, bonds, level)
        torch.testing.assert_close(labels.mean(0), torch.zeros(4, dtype=F64), atol=1e-9, rtol=0)
        variance = labels.var(0, correction=0)
        assert ((variance - 1).abs() < 1e-2).logical_or(variance < 1e-4).all()
    net.eval()
    one = net(x, ends, bonds)
    batch = torch.arange(2).repeat_interleave(9)
    both = net(x.repeat(2, 1), torch.cat((ends, ends + 9), 1), bonds.repeat(2, 1), batch)
    torch.testing.assert_close(both, one.expand(2, -1))  # a graph does not depend on the others


def test_a_single_node_is_normalized_in_training_as_in_evaluation():
    net = WLKernelNN(3, 4, normalize=True, dtype=F64)
    x, none = torch.randn(1, 3, dtype=F64), torch.zeros(2, 0, dtype=torch.int64)
    before = [*map(torch.clone, net.buffers())]
    found = net.train()(x, none)
    torch.testing.assert_close(found, net.eval()(x, none))
    assert all(map(torch.equal, net.buffers(), before))


@looped("normalize", [False, True])
@looped("edge_dim", [None, 2])
def test_the_levels_sum_to_the_readout(edge_dim, normalize):
    torch.manual_seed(0)
    net = WLKernelNN(3, 4, 3, decay="gated", edge_dim=edge_dim, normalize=normalize, dtype=F64)
    x, ends = torch.randn(6, 3, dtype=F64), torch.randint(0, 3, (2, 11))
    batch = torch.arange(2).repeat_interleave(3)
    bonds = None if edge_dim is None else torch.randn(11, 2, dtype=F64)
    levels = net.eval().by_level(x, ends, bonds, batch)
    assert levels.shape == (2, 12)
    torch.testing.assert_close(levels.reshape(2, 3, 4).sum(1), net(x, ends, bonds, batch))


def test_walks_of_each_level_sum_to_weighted_levels():
    torch.manual_seed(0)
    net = WLKernelNN(3, 4, 3, decay="gated", normalize=True, dtype=F64).eval()
    graph = Data(x=torch.randn(5, 3, dtype=F64), edge_index=torch.randint(0, 5, (2, 9)))
    weights = torch.randn(12, dtype=F64)
    walks = walk_readout(net, graph, weights)
    total = sum(walk.contribution for walk in walks)
    expected = (net.by_level(graph.x, graph.edge_index) @ weights).item()
    assert total == pytest.approx(expected, rel=1e-9)
