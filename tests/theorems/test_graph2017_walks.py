"""Lei et al. (2017), (5)-(8), Theorem 3, section 4: random-walk kernels and their networks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from graph2017_by_hand import (
    GRAPHS,
    Drawn,
    graph_kernel,
    path,
    random_graph,
    walk_kernel,
    walks,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from drawn_graphs import edge_features
from representer.kernels import Linear, RandomWalkKernel
from representer.nn import RandomWalkKernelNN, path_graph
from representer.ops import use_backend

theorem = settings(deadline=None, max_examples=8)
orders, seeds = st.integers(1, 4), st.integers(0, 2**16)
decays = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.1, 2.0))
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def data(graph: Drawn) -> Data:
    return Data(x=graph.x, edge_index=graph.edge_index, edge_attr=graph.edge_attr)


def scalar(value: float) -> torch.Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def network(seed: int, **options) -> RandomWalkKernelNN:
    torch.manual_seed(seed)
    net = RandomWalkKernelNN(3, 4, dtype=torch.float64, **options)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter)
    return net


@theorem
@given(G=GRAPHS, H=GRAPHS, n=orders, lam=decays, edges=st.booleans())
def test_5_the_kernel_is_the_sum_over_every_two_walks(G, H, n, lam, edges):
    kernel = RandomWalkKernel(n, lam, edges=edges)
    expected = scalar(walk_kernel(G, H, n, lam, edges))
    torch.testing.assert_close(kernel([data(G)], [data(H)]), expected, **CLOSE)


@settings(deadline=None, max_examples=6)  # four enumerations of all pairs of walks each
@given(G=GRAPHS, H=GRAPHS, n=st.integers(1, 3), lam=decays)
def test_5_labels_of_nodes_are_compared_by_delta(G, H, n, lam):
    """delta is the inner product of one-hot features; the walks are counted, in one matrix."""
    labels = [(3 * g.x[:, 0].abs()).long() % 3 for g in (G, H)]
    one_hot = [Drawn(F.one_hot(own, 3).double(), g.edge_index, g.edge_attr)
               for own, g in zip(labels, (G, H), strict=True)]  # fmt: skip
    X = [Data(x=own[:, None].double(), edge_index=g.edge_index)
         for own, g in zip(labels, (G, H), strict=True)]  # fmt: skip
    expected = [[walk_kernel(a, b, n, lam) for b in one_hot] for a in one_hot]
    expected = torch.tensor(expected, dtype=torch.float64)
    delta = RandomWalkKernel(n, lam, base="delta")
    torch.testing.assert_close(delta(X), expected, **CLOSE)
    torch.testing.assert_close(delta.diag(X), expected.diagonal(), **CLOSE)
    torch.testing.assert_close(RandomWalkKernel(n, lam)([data(g) for g in one_hot]), expected)


@pytest.mark.parametrize("combine", ["multiply", "add"])
@pytest.mark.parametrize("lam", [0.4, 1.3])
def test_5_the_explicit_features_of_walks_give_the_same_sum(combine, lam):
    """Of many nodes with few features, in place of all pairs of nodes; also of k(G, G)."""
    graphs = [random_graph(12, 30, 1, 1, seed) for seed in range(3)]
    kernel = RandomWalkKernel(2, lam, combine)
    X = [data(g) for g in graphs]
    expected = torch.tensor(
        [[graph_kernel(a, b, 2, lam, combine=combine) for b in graphs] for a in graphs],
        dtype=torch.float64,
    )
    torch.testing.assert_close(kernel(X), expected, **CLOSE)
    torch.testing.assert_close(kernel.diag(X), expected.diagonal(), **CLOSE)
    pairs = RandomWalkKernel(
        2, lam, combine, base=Linear()
    )  # a base with a name alone has features
    torch.testing.assert_close(pairs(X), expected, **CLOSE)


@pytest.mark.parametrize("combine", ["multiply", "add"])
@theorem
@given(G=GRAPHS, H=GRAPHS, n=st.integers(1, 3), lam=decays, edges=st.booleans())
def test_7_the_kernel_is_the_sum_of_its_local_kernel(combine, G, H, n, lam, edges):
    kernel = RandomWalkKernel(n, lam, combine, edges=edges)
    expected = scalar(graph_kernel(G, H, n, lam, combine=combine, edges=edges))
    torch.testing.assert_close(kernel([data(G)], [data(H)]), expected, **CLOSE)
    if combine == "multiply":
        torch.testing.assert_close(scalar(walk_kernel(G, H, n, lam, edges)), expected, **CLOSE)


QUADRATIC = ("polynomial", lambda k: (k + 1) ** 2 / 4)


@pytest.mark.parametrize("combine", ["multiply", "add"])
@theorem
@given(G=GRAPHS, H=GRAPHS, n=st.integers(1, 3), lam=decays)
def test_section_3_2_neighbors_may_be_aggregated_non_linearly(combine, G, H, n, lam):
    name, sigma_kernel = QUADRATIC
    kernel = RandomWalkKernel(n, lam, combine, nonlinear=name)
    expected = graph_kernel(G, H, n, lam, combine=combine, sigma_kernel=sigma_kernel)
    torch.testing.assert_close(kernel([data(G)], [data(H)]), scalar(expected), **CLOSE)


@theorem
@given(G=GRAPHS, n=orders, lam=decays, edges=st.booleans(), seed=seeds)
def test_theorem_3_the_sum_of_the_states_is_the_kernel_with_the_reference_walk(
    G, n, lam, edges, seed
):
    """Sum_v c_n[v][k] = K_n(G, L_k), L_k the directed path of the k-th rows of W^(1) … W^(n)."""
    net = network(seed, order=n, decay=lam, edge_dim=2 if edges else None)
    found = net(G.x, G.edge_index, edge_features(net, G))
    of_edges = net.edge_references()
    for k, reference in enumerate(net.references()):
        L = path(reference, None if of_edges is None else of_edges[k])
        expected = walk_kernel(G, L, n, lam, edges)
        torch.testing.assert_close(found[:, k : k + 1], scalar(expected), **CLOSE)


@theorem
@given(G=GRAPHS, n=orders, lam=decays, seed=seeds)
def test_theorem_3_every_state_sums_the_walks_that_end_in_its_node(G, n, lam, seed):
    """Appendix D: c_j[v][k] = lam^(j-1) sum over walks that end in v of prod_i <w_i, f_{u_i}>."""
    net = network(seed, order=n, decay=lam)
    states, references = net.node_states(G.x, G.edge_index), net.references()
    expected = torch.zeros_like(states)
    for j in range(1, n + 1):
        for nodes, _ in walks(G, j):
            term = lam ** (j - 1) * torch.ones(4, dtype=torch.float64)
            for i, u in enumerate(nodes):
                term = term * (references[:, i] @ G.x[u])
            expected[nodes[-1], j - 1] += term
    torch.testing.assert_close(states, expected, **CLOSE)


@pytest.mark.parametrize(("edges", "combine"), [(False, "add"), (True, "add"), (True, "multiply")])
@pytest.mark.parametrize("nonlinear", [False, "polynomial", "exponential", "linear"])
@settings(deadline=None, max_examples=4)
@given(G=GRAPHS, n=orders, lam=st.floats(0, 1), seed=seeds)
def test_theorem_3_the_network_is_its_kernel_with_its_references(
    edges, combine, nonlinear, G, n, lam, seed
):
    """Of the forms of section 3.2 too, for every sigma that is itself a kernel K_sigma."""
    G = Drawn(0.2 * G.x, G.edge_index, 0.5 * G.edge_attr)  # so that exponentials stay small
    kernel = RandomWalkKernel(n, lam, combine, nonlinear=nonlinear, edges=edges)
    net = kernel.network(3, 4, dtype=torch.float64, **({"edge_dim": 2} if edges else {}))
    assert net.kernel.get_params() == kernel.get_params()
    torch.manual_seed(seed)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    of_edges = net.edge_references() if edges else [None] * 4
    references = [path_graph(*pair) for pair in zip(net.references(), of_edges, strict=True)]
    found = net(G.x, G.edge_index, edge_features(net, G))
    torch.testing.assert_close(found, net.kernel([data(G)], references), **CLOSE)


def test_theorem_3_needs_a_reference_that_is_directed_and_has_n_nodes():
    """Appendix D and section 3.1 (v_0 … v_n) have n + 1 nodes: that is another value."""
    G, net = random_graph(5, 8, 3, 1, seed=3), network(1, order=3)
    (reference,) = net.references()[:1]
    L = path(reference)
    both_ways = Drawn(L.x, torch.cat((L.edge_index, L.edge_index.flip(0)), dim=1), L.edge_attr)
    longer = path(torch.cat((reference, reference[-1:])))
    found = net(G.x, G.edge_index)[0, 0].item()
    assert found == pytest.approx(walk_kernel(G, L, 3, 1.0), rel=1e-10)
    for other in (both_ways, longer):
        assert found != pytest.approx(walk_kernel(G, other, 3, 1.0), rel=1e-3)


@theorem
@given(G=GRAPHS, n=orders, seed=seeds, scale=st.sampled_from([1.0, 10.0]))
def test_section_4_a_walk_weighs_the_product_of_the_gates_of_its_edges(G, n, seed, scale):
    """The printed lambda_{x_i, y_i} is that of the edge (x_i, x_{i+1}) of G alone."""
    net = network(seed, order=n, decay="gated", edge_dim=2, gate_scale=scale)
    gate, of_edges = net.decay_gate(), net.edge_references()
    lam = {}
    for e, (u, v) in enumerate(G.edges):
        z = gate["source"] @ G.x[u] + gate["target"] @ G.x[v]
        lam[e] = scale * torch.sigmoid(z + gate["edge"] @ G.edge_attr[e] + gate["bias"])
    expected = torch.zeros(4, dtype=torch.float64)
    for nodes, edges in walks(G, n):
        term = torch.ones(4, dtype=torch.float64)
        for i, u in enumerate(nodes):
            term = term * (net.references()[:, i] @ G.x[u])
        for i, e in enumerate(edges):
            term = term * lam[e] * (of_edges[:, i] @ G.edge_attr[e])
        expected += term
    torch.testing.assert_close(net(G.x, G.edge_index, edge_features(net, G))[0], expected, **CLOSE)


@theorem
@given(G=GRAPHS, n=orders, seed=seeds)
def test_section_4_a_learned_decay_is_a_kernel_of_each_unit(G, n, seed):
    net = network(seed, order=n, decay="learned")
    found = net(G.x, G.edge_index)
    for k, reference in enumerate(net.references()):
        lam = float(net.decay_gate()[k])
        expected = scalar(walk_kernel(G, path(reference), n, lam))
        torch.testing.assert_close(found[:, k : k + 1], expected, **CLOSE)


@pytest.mark.parametrize("decay", [1.0, 0.5, "learned", "gated"])
def test_6_in_single_precision_the_states_are_those_of_the_recurrence(decay):
    """The paths for float32, values and gradients, against the equations in float64."""
    G = random_graph(6, 14, 3, 2, seed=5)
    torch.manual_seed(2)
    net = RandomWalkKernelNN(3, 33, 3, decay, edge_dim=2)
    double = RandomWalkKernelNN(3, 33, 3, decay, edge_dim=2, dtype=torch.float64)
    double.load_state_dict(net.state_dict())
    W, edges = double.references(), double.edge_references()
    gate = double.decay_gate()
    c = [G.x @ W[:, 0].T]
    for j in (1, 2):
        rows = torch.zeros_like(c[0])
        for e, (u, v) in enumerate(G.edges):
            lam = gate
            if decay == "gated":
                z = gate["source"] @ G.x[u] + gate["target"] @ G.x[v]
                lam = torch.sigmoid(z + gate["edge"] @ G.edge_attr[e] + gate["bias"])
            rows[v] += lam * c[-1][u] * (edges[:, j - 1] @ G.edge_attr[e])
        c.append(rows * (G.x @ W[:, j].T))
    x, attr = G.x.float(), G.edge_attr.float()
    near = {"rtol": 1e-4, "atol": 1e-4, "check_dtype": False}
    found = net.node_states(x, G.edge_index, attr)
    torch.testing.assert_close(found, torch.stack(c, dim=1), **near)
    weights = torch.randn(33)
    (net(x, G.edge_index, attr) * weights).sum().backward()
    with use_backend("reference"):
        (double(G.x, G.edge_index, G.edge_attr) * weights).sum().backward()
    for one, wanted in zip(net.parameters(), double.parameters(), strict=True):
        scale = float(wanted.grad.abs().max())
        torch.testing.assert_close(one.grad / scale, wanted.grad / scale, **near)
