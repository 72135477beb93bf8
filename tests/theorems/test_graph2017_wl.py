"""Lei et al. (2017), (10), (11), section 3.4, Proposition 2: Weisfeiler-Lehman kernels."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from graph2017_by_hand import (
    GRAPHS,
    Drawn,
    path,
    random_graph,
    refined,
    walk_features,
    walk_kernel,
    walks,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from drawn_graphs import edge_features
from representer.functional import relabel
from representer.kernels import RandomWalkKernel, WeisfeilerLehmanKernel
from representer.nn import Relabeling, WLKernelNN, path_graph

theorem = settings(deadline=None, max_examples=6)
seeds, decays = st.integers(0, 2**16), st.sampled_from([0.0, 0.4, 1.0])
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def data(graph: Drawn, x: torch.Tensor | None = None) -> Data:
    x = graph.x if x is None else x
    return Data(x=x, edge_index=graph.edge_index, edge_attr=graph.edge_attr)


def colored(graphs: list[Drawn], count: int = 2) -> list[list[str]]:
    return [["abc"[int(5 * abs(x[0])) % count] for x in G.x] for G in graphs]


def as_networkx(graph: Drawn, labels: list[str]) -> nx.MultiDiGraph:
    made = nx.MultiDiGraph()
    made.add_nodes_from((v, {"x": label}) for v, label in enumerate(labels))
    made.add_edges_from(graph.edges)
    return made


def common(a: Counter, b: Counter) -> int:
    return sum(count * b[label] for label, count in a.items())


def test_11_any_kernel_of_graphs_is_a_base():
    """K_WL = sum_i K(r^i(G), r^i(G')) for K a sum, a product, and a normalized kernel."""
    graphs, r = [random_graph(4, 7, 3, 2, seed) for seed in range(3)], relabeling(5)
    levels = [[data(G) for G in graphs]]
    for _ in range(2):
        last = [r(G.x, G.edge_index).detach() for G in levels[-1]]
        levels.append([data(G, x) for G, x in zip(graphs, last, strict=True)])
    walk, node = RandomWalkKernel(2, 0.5), RandomWalkKernel(1)
    for base in (walk + node, walk * node, walk.cosine()):
        expected = sum(base(level) for level in levels)
        torch.testing.assert_close(WeisfeilerLehmanKernel(base, 2, r)(levels[0]).detach(), expected)


@theorem
@given(G=GRAPHS, H=GRAPHS, depth=st.integers(0, 4))
def test_11_discrete_levels_count_the_labels_that_both_graphs_have(G, H, depth):
    labels = colored([G, H])
    X, Y = ([as_networkx(g, own)] for g, own in zip((G, H), labels, strict=True))
    expected = 0
    for level in range(depth + 1):
        labels = refined([G, H], labels) if level else labels
        expected += common(*map(Counter, labels))
    assert WeisfeilerLehmanKernel(depth=depth)(X, Y) == expected


@theorem
@given(
    sizes=st.lists(st.integers(1, 7), min_size=2, max_size=4), density=st.floats(0, 1), seed=seeds,
    bonds=st.booleans(),
)  # fmt: skip
def test_11_discrete_relabeling_is_the_color_refinement_of_networkx(sizes, density, seed, bonds):
    rng = np.random.default_rng(seed)
    graphs = []
    for size in sizes:
        graph = nx.gnp_random_graph(size, density, seed=int(rng.integers(2**31)))
        for v in graph:
            graph.nodes[v]["x"] = str(rng.choice(["a", "b"]))
            if rng.random() < 0.2:
                graph.add_edge(v, v)
        for u, v in graph.edges:
            graph.edges[u, v]["edge_attr"] = str(rng.choice(["-", "="]))
        graphs.append(graph)
    hashes = [
        nx.weisfeiler_lehman_subgraph_hashes(
            graph, edge_attr="edge_attr" if bonds else None, node_attr="x", iterations=3,
            digest_size=32, include_initial_labels=True,
        )
        for graph in graphs
    ]  # fmt: skip
    for depth in range(4):
        counts = [Counter((i, of[v][i]) for i in range(depth + 1) for v in of) for of in hashes]
        expected = [[common(a, b) for b in counts] for a in counts]
        found = WeisfeilerLehmanKernel(depth=depth, edges=bonds)(graphs)
        np.testing.assert_array_equal(found, expected)


LEVELS = {  # i = 0 .. 3, counted by hand
    ("abab", "ababa"): ([10, 5, 4, 2], [12, 4, 2, 0]),
    ("aba", "ababa"): ([8, 6, 4, 0], [8, 4, 0, 0]),
}


@pytest.mark.parametrize("base", [0, 1], ids=["labels", "walks"])
@pytest.mark.parametrize("words", LEVELS)
def test_11_levels_counted_by_hand(words, base):
    X = []
    for word in words:
        graph = nx.path_graph(len(word))
        nx.set_node_attributes(graph, dict(enumerate(word)), "x")
        X.append(graph)
    kernel = RandomWalkKernel(2, 0.5) if base else None
    sums = [WeisfeilerLehmanKernel(kernel, depth)(X)[0, 1] for depth in range(4)]
    assert np.diff([0, *sums]).tolist() == LEVELS[words][base]


def test_11_six_and_two_triangles_cannot_be_told_apart():
    ring, triangles = nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    for graph in (ring, triangles):
        nx.set_node_attributes(graph, "a", "x")
    gram = WeisfeilerLehmanKernel(depth=3)([ring, triangles])
    assert (gram == 4 * 36).all()


def relabeling(seed: int, channels: int = 3, **options) -> Relabeling:
    torch.manual_seed(seed)
    module = Relabeling(channels, dtype=torch.float64, **options)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module


@pytest.mark.parametrize("combine", ["add", "multiply"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("edge_dim", [None, 2])
@settings(deadline=None, max_examples=6)
@given(G=GRAPHS, seed=seeds)
def test_10_the_generalized_relabeling(combine, activation, edge_dim, G, seed):
    """sigma(U_1 f_v + U_2 sum sigma(V f_u)) with biases; or the other form of (9), a product."""
    r = relabeling(seed, edge_dim=edge_dim, activation=activation, combine=combine)
    sigma = getattr(torch, activation)
    (V, U1), U2 = r.weight.detach().chunk(2), r.neighbors.detach()
    b, b_out = r.bias.detach().chunk(2)
    expected = []
    for v in range(len(G.x)):
        total = torch.zeros(3, dtype=torch.float64)
        for e, (u, to) in enumerate(G.edges):
            if to == v:
                bond = 0 if edge_dim is None else r.edge_weight.detach() @ G.edge_attr[e]
                total += sigma(V @ G.x[u] + b + bond)
        own, around = U1 @ G.x[v] + b_out, U2 @ total
        expected.append(sigma(own + around if combine == "add" else own * around))
    found = r(G.x, G.edge_index, edge_features(r, G))
    torch.testing.assert_close(found, torch.stack(expected), **CLOSE)
    function = relabel(
        G.x, G.edge_index, U1, U2, V, bias=b_out, inner_bias=b, activation=activation,
        edge_attr=G.edge_attr, edge_weight=r.edge_weight, combine=combine,
    )  # fmt: skip
    torch.testing.assert_close(found, function, **CLOSE)


def network(seed: int, **options) -> WLKernelNN:
    torch.manual_seed(seed)
    net = WLKernelNN(2, 3, label_channels=0, dtype=torch.float64, **options)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return net


SMALL = st.builds(
    random_graph, st.integers(1, 5), st.integers(0, 6), st.just(2), st.just(2), seeds, st.booleans()
)


@pytest.mark.parametrize("shared", [True, False])
@theorem
@given(G=SMALL, H=SMALL, L=st.integers(1, 3), n=st.integers(1, 3), lam=decays, seed=seeds)
def test_proposition_2_the_output_is_a_product_in_the_space_of_the_kernel(
    shared, G, H, L, n, lam, seed
):
    """h_G[k] = <Phi(G), (psi_1k, …, psi_Lk)>, K_WL(G, H) = <Phi(G), Phi(H)> of depth L - 1.

    Phi puts phi_n(r^0(G)), …, phi_n(r^(L-1)(G)) beside each other; (11) has one level more.
    """
    net = network(seed, depth=L, order=n, decay=lam, share_references=shared)

    def features(graph: Drawn) -> torch.Tensor:
        parts, x = [], graph.x
        for level in range(L):
            x = net.relabeling(x, graph.edge_index).detach() if level else x
            parts.append(walk_features(Drawn(x, graph.edge_index, graph.edge_attr), n, lam))
        return torch.cat(parts)

    psi = [
        torch.cat([walk_features(path(net.references(level)[k]), n, 1.0) for level in range(L)])
        for k in range(3)
    ]
    expected = torch.stack([features(G) @ of for of in psi])
    terms = torch.stack([features(G).norm() * of.norm() for of in psi]).clamp(min=1)
    assert ((net(G.x, G.edge_index)[0] - expected).abs() <= 1e-10 * terms).all()
    base = RandomWalkKernel(n, lam)
    K = WeisfeilerLehmanKernel(base, L - 1, net.relabeling)([data(G)], [data(H)])
    product = features(G) @ features(H)  # lam^(n-1) on both sides, where the kernel has it once
    # terms of opposite signs may leave little of themselves
    terms = (features(G).norm() * features(H).norm()).clamp(min=1)
    assert (lam ** (n - 1) * K[0, 0] - product).abs() <= 1e-10 * terms


@theorem
@given(
    G=SMALL, L=st.integers(1, 4), n=st.integers(1, 3), lam=decays, edges=st.booleans(), seed=seeds
)
def test_proposition_2_every_level_is_the_walk_kernel_of_the_relabeled_graph(
    G, L, n, lam, edges, seed
):
    """Theorem 3 on r^(l-1)(G), with the references of the level."""
    options = {"edge_dim": 2} if edges else {}
    net = network(seed, depth=L, order=n, decay=lam, share_references=False, **options)
    total = torch.zeros(3, dtype=torch.float64)
    for level in range(L):
        labels = net.labels(G.x, G.edge_index, edge_features(net, G), level=level).detach()
        of_edges = net.edge_references(level)
        for k, reference in enumerate(net.references(level)):
            walk = path(reference, None if of_edges is None else of_edges[k])
            R = Drawn(labels, G.edge_index, G.edge_attr)
            value = walk_kernel(R, walk, n, lam, edges)
            states = net.node_states(G.x, G.edge_index, edge_features(net, G), level=level)
            assert states[:, -1, k].sum().item() == pytest.approx(value, rel=1e-10, abs=1e-10)
            total[k] += value
    torch.testing.assert_close(net(G.x, G.edge_index, edge_features(net, G))[0], total, **CLOSE)


@theorem
@given(
    G=SMALL, L=st.integers(1, 4), n=st.integers(1, 3), lam=decays, edges=st.booleans(), seed=seeds,
    form=st.sampled_from(["add", "multiply"]),
)  # fmt: skip
def test_proposition_2_the_network_is_its_kernel_with_its_references(
    G, L, n, lam, edges, seed, form
):
    """The kernel that compares every relabeling, of both forms, with references as they are."""
    options = {"edge_dim": 2} if edges else {}
    net = network(seed, depth=L, order=n, decay=lam, relabel_combine=form, **options)
    of_edges = net.edge_references() if edges else [None] * 3
    references = [path_graph(*pair) for pair in zip(net.references(), of_edges, strict=True)]
    found = net(G.x, G.edge_index, edge_features(net, G))
    torch.testing.assert_close(found, net.kernel([data(G)], references), **CLOSE)
    twin = net.kernel.network(2, 3)
    twin.load_state_dict(net.state_dict())
    torch.testing.assert_close(twin(G.x, G.edge_index, edge_features(net, G)), found, **CLOSE)


def test_proposition_2_the_last_level_alone_is_what_the_authors_code_reads_out():
    G = random_graph(5, 9, 2, 1, seed=1)
    both = {"depth": 3, "decay": 0.5}
    net, last = network(4, **both), network(4, readout="last", **both)
    found = last(G.x, G.edge_index)
    expected = net.node_states(G.x, G.edge_index, level=2)[:, -1].sum(0, keepdim=True)
    torch.testing.assert_close(found, expected, **CLOSE)
    assert not torch.allclose(found, net(G.x, G.edge_index))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("edges", [False, True])
@settings(deadline=None, max_examples=6)
@given(G=SMALL, L=st.integers(1, 3), n=st.integers(1, 3), seed=seeds)
def test_section_4_at_each_level_the_gates_see_its_labels(shared, edges, G, L, n, seed):
    """A walk of level l weighs the gates of its edges, of the labels of level l."""
    options = {"edge_dim": 2} if edges else {}
    net = network(seed, depth=L, order=n, decay="gated", share_references=shared, **options)
    total = torch.zeros(3, dtype=torch.float64)
    for level in range(L):
        w = net.level_walks(level)
        (source, target), bias = w.gates.detach(), w.gate_bias.detach()
        references, of_edges = net.references(level), net.edge_references(level)
        f = net.labels(G.x, G.edge_index, edge_features(net, G), level=level).detach()
        for nodes, taken in walks(G, n):
            term = torch.ones(3, dtype=torch.float64)
            for i, u in enumerate(nodes):
                term = term * (references[:, i] @ f[u])
            for i, e in enumerate(taken):
                u, v = G.edges[e]
                z = source @ f[u] + target @ f[v] + bias
                if edges:
                    z = z + w.gate_edge.detach() @ G.edge_attr[e]
                    term = term * (of_edges[:, i] @ G.edge_attr[e])
                term = term * torch.sigmoid(z)
            total = total + term
    torch.testing.assert_close(net(G.x, G.edge_index, edge_features(net, G))[0], total, **CLOSE)
