"""The kernels that gated layers have learned, against sums over all steps, n-grams and walks.

Liang et al. 2019, (9), (10), (16), (18); Lei et al. 2017, (3), (4), (6), (11), section 4, Tables 4
and 5. The gates are computed by hand from the weights that a layer shows.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
import torch
from small_oracles import smallest_eigenvalue
from torch import Tensor
from torch_geometric.data import Data

from drawn_graphs import edge_features
from representer.functional.walks import walks
from representer.kernels import LearnedKernel
from representer.nn import (
    CNN,
    RAN,
    RKM,
    RKMCIFG,
    RKMLSTM,
    GatedCNN,
    LinearKernelRNN,
    RandomWalkKernelNN,
    StringKernelRNN,
    TreeKernelNN,
    WLKernelNN,
)

DOUBLE: Any = {"dtype": torch.float64}
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def sequences(count: int, features: int = 3, longest: int = 6) -> list[Tensor]:
    lengths = [(5 * i + 4) % (longest + 1) for i in range(count)]  # 0 … longest
    return [torch.randn(length, features, **DOUBLE) for length in lengths]


# Cells: the sum over steps.

CELLS = {
    "RKM-LSTM": RKMLSTM(3, 4, **DOUBLE),
    "with a bias on the candidate": RKMLSTM(3, 4, candidate_bias=True, forget_bias=1.0, **DOUBLE),
    "with windows": RKMLSTM(3, 4, filter_length=3, dilation=2, **DOUBLE),
    "with wavelets": RKMLSTM(3, 4, filters="wavelet", filter_length=4, **DOUBLE),
    "tanh on the output": RKMLSTM(3, 4, output_nonlinearity="tanh", **DOUBLE),
    "RKM-CIFG, two lengths": RKMCIFG(3, 4, filter_length={1: 1, 2: 3}, **DOUBLE),
    "RAN": RAN(3, 4, **DOUBLE),
    "Linear Kernel w/ o_t": LinearKernelRNN(3, 4, static_gates=(0.7, 0.9), **DOUBLE),
    "Linear Kernel, feedback": LinearKernelRNN(3, 4, output_gate=False, **DOUBLE),
    "Linear Kernel, learned": LinearKernelRNN(
        3, 4, output_gate=False, feedback=False, learn_static_gates=True, **DOUBLE
    ),
    "Gated CNN": GatedCNN(3, 4, filter_length=2, **DOUBLE),
    "CNN": CNN(3, 4, filter_length=2, **DOUBLE),
    "RKM, linear": RKM(3, 4, q="linear", **DOUBLE),
}


def cell_by_hand(layer: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return w_i(x, s) ``(T, H)`` and the features ``(T, F)`` of every step, step by step."""
    filters, recurrent, biases = layer.filters(), layer.recurrent(), layer.biases()
    cell, static = layer.cell, layer.static_gates()
    h, c = torch.zeros(4, **DOUBLE), torch.zeros(4, **DOUBLE)
    features, writes, keeps, out = [], [], [], torch.ones(4, **DOUBLE)

    def product(gate: str, t: int) -> Tensor:
        z = torch.zeros(4, **DOUBLE)
        for slot in range(filters[gate].shape[2]):
            if (s := t - slot * layer.dilation) >= 0:
                z = z + filters[gate][:, :, slot] @ x[s]
        z = z + recurrent[gate] @ h if gate in recurrent else z
        return z + biases[gate] if gate in biases else z

    for t in range(len(x)):
        gate = {name: product(name, t).sigmoid() for name in filters if name != "candidate"}
        forget = gate.get("forget", torch.zeros(4, **DOUBLE) if static is None else static[1])
        forget = 0 * forget if cell.forget_gate == "none" else forget
        forget = forget / 2 if isinstance(layer, RKM) else forget
        write = 1 - forget if cell.input_gate == "coupled" else gate.get("input")
        write = static[0] if write is None else write
        window = [
            x[s] if (s := t - slot * layer.dilation) >= 0 else torch.zeros(3, **DOUBLE)
            for slot in range(filters["candidate"].shape[2])
        ]
        own = [*window, h] if "candidate" in recurrent else window
        own = [*own, torch.ones(1, **DOUBLE)] if "candidate" in biases else own
        features.append(torch.cat(own))
        c = write * product("candidate", t) + forget * c
        out = gate.get("output", torch.ones(4, **DOUBLE))
        named = {"tanh": torch.tanh, "linear": lambda z: z / 2, "identity": lambda z: z}
        h = out * named[cell.output](c)
        writes.append(write)
        keeps.append(forget)
    weights = [torch.stack(keeps[s + 1 :]).prod(0) if s + 1 < len(x) else 1 for s in range(len(x))]
    read = {"identity": out, "linear": 0.5}.get(cell.output, 1)
    return torch.stack([w * k * read for w, k in zip(writes, weights, strict=True)]), torch.stack(
        features
    )


def cell_state(layer: Any, x: Tensor) -> Tensor:
    output, state = layer(x)
    if layer.cell.output in ("identity", "linear"):
        return output[-1]
    return state.c[0] if hasattr(state, "c") else output[-1].atanh()


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_the_inner_product_of_its_features_with_its_reference(name):
    layer, X = CELLS[name], sequences(7)
    k = LearnedKernel(layer)
    maps = []
    for x in X:
        if not len(x):
            maps.append(torch.zeros(4, k.unit(0).reference.numel(), **DOUBLE))
            continue
        weights, features = cell_by_hand(layer, x)
        maps.append(weights.T @ features)
    Phi = torch.stack(maps)  # (N, H, F)
    expected = torch.stack(
        [cell_state(layer, x) if len(x) else torch.zeros(4, **DOUBLE) for x in X]
    )
    for i in range(4):
        unit = k.unit(i)
        torch.testing.assert_close(Phi[:, i] @ unit.reference[0], expected[:, i], **CLOSE)
        torch.testing.assert_close(unit.value(X), expected[:, i], **CLOSE)
        torch.testing.assert_close(unit(X), Phi[:, i] @ Phi[:, i].T, **CLOSE)
    torch.testing.assert_close(k(X), torch.einsum("ahf,bhf->ab", Phi, Phi), **CLOSE)
    torch.testing.assert_close(k(X, X[:3]), k(X)[:, :3], **CLOSE)
    torch.testing.assert_close(k.diag(X), k(X).diagonal(), **CLOSE)


@pytest.mark.parametrize("name", CELLS)
def test_the_gram_matrix_of_a_cell_is_positive_semidefinite(name):
    assert smallest_eigenvalue(LearnedKernel(CELLS[name])(sequences(40))) > -1e-14


def test_the_printed_rkm_lstm_of_one_unit_has_the_printed_numbers():
    layer = RKMLSTM(1, 1, candidate_bias=False, **DOUBLE)
    rows = {"candidate": (1, 0.5, 0), "output": (-0.5, 0.3, 0.2), "input": (0.4, -0.3, 0.1),
            "forget": (0.6, 0.2, 0.5)}  # fmt: skip
    with torch.no_grad():
        for i, gate in enumerate(layer.cell.gates):
            layer.weight_ih_l0[i] = rows[gate][0]
            layer.weight_hh_l0[layer.cell.recurrent_gates.index(gate)] = rows[gate][1]
        for i, gate in enumerate(layer.cell.biased_gates):
            layer.bias_l0[i] = rows[gate][2]
    x = torch.tensor([[1.0], [-1.0], [2.0]], **DOUBLE)
    y = torch.tensor([[0.5], [1.0]], **DOUBLE)
    h, state = layer(x)
    torch.testing.assert_close(h[-1, 0].item(), 0.422780638649, rtol=0, atol=5e-13)
    torch.testing.assert_close(state.c.item(), 1.373135593806, rtol=0, atol=5e-13)
    unit = LearnedKernel(layer).unit(0)
    torch.testing.assert_close(unit.value([x]).item(), 0.422780638649, rtol=0, atol=5e-13)
    torch.testing.assert_close(unit([x], [y]).item(), 0.149892453972, rtol=0, atol=5e-13)
    read = h[-1, 0].item() / state.c.item()
    for r, value in (((1.0, 0.0), 1.339548829532), ((0.0, 1.0), 0.067173528547)):
        got = unit.value([x], torch.tensor([r], **DOUBLE)).item() / read
        torch.testing.assert_close(got, value, rtol=0, atol=5e-12)


# String chains: the sum over n-grams.


def string_by_hand(layer: StringKernelRNN, x: Tensor) -> Tensor:
    """Return λ of every step ``(T, H)``, from the weights of the gate."""
    gate = layer.decay_gate()
    if isinstance(gate, Tensor):
        return gate.expand(len(x), 4)
    h, decays = layer(x)[0], []
    for t in range(len(x)):
        a = gate["input"] @ x[t] + gate["bias"]
        a = a + gate["state"] @ h[t - 1] if "state" in gate and t else a
        decays.append(a.sigmoid())
    return torch.stack(decays)


def chain_maps(layer: StringKernelRNN, x: Tensor) -> list[Tensor]:
    """Return Φ_j of every unit ``(H, d^j)`` for j = 1 … n, by listing all n-grams."""
    lam, maps = string_by_hand(layer, x), []
    for j in range(1, layer.order + 1):
        total, mass = torch.zeros(4, 3**j, **DOUBLE), torch.zeros(4, **DOUBLE)
        for chosen in combinations(range(len(x)), j):
            skipped = [u for u in range(chosen[0] + 1, len(x)) if u not in chosen]
            w = lam[skipped].prod(0)
            w = w * (1 - lam[list(chosen)]).prod(0) if layer.normalized is True else w
            tensor = torch.ones(1, **DOUBLE)
            for i in chosen:
                tensor = (tensor[:, None] * x[i]).flatten()
            total, mass = total + w[:, None] * tensor, mass + w
        exact = layer.normalized == "exact"
        maps.append(torch.where(mass > 0, 1 / mass, 0.0)[:, None] * total if exact else total)
    return maps


CHAINS = [
    {"order": n, "decay": decay, "normalized": normalized, "readout": readout}
    for n in (1, 2, 3)
    for decay in ("learned", "input", "state")
    for normalized in (False, True, "exact")
    for readout in ("last", "sum", "weighted")
    if n < 3 or (normalized, readout) == (False, "last")
]


def chain(**options: Any) -> StringKernelRNN:
    torch.manual_seed(3)
    layer = StringKernelRNN(3, 4, **options, **DOUBLE)
    if layer.decay == "learned":
        torch.nn.init.normal_(layer.decay_logit_l0)
    return layer


@pytest.mark.parametrize(
    "options", CHAINS, ids=lambda options: "-".join(map(str, options.values()))
)
def test_a_string_chain_is_the_inner_product_of_the_features_of_n_grams(options):
    layer, X = chain(**options), sequences(5)
    k, read = LearnedKernel(layer), slice(-1, None) if layer.readout == "last" else slice(None)
    alpha = torch.ones(layer.order, 4, **DOUBLE)
    if layer.readout == "weighted":
        torch.nn.init.normal_(layer.readout_l0)
        alpha = layer.readout_weights()
    empty = [torch.zeros(4, 3**j, **DOUBLE) for j in range(1, layer.order + 1)]
    Phi = torch.stack([
        torch.cat([
            a.sqrt()[:, None] * of_order
            for a, of_order in zip(alpha, chain_maps(layer, x) if len(x) else empty, strict=True)
        ][read], dim=1)
        for x in X
    ])  # fmt: skip
    W = []
    for i, r in enumerate(layer.references()):
        tensors, tensor = [], torch.ones(1, **DOUBLE)
        for w, a in zip(r, alpha[:, i], strict=True):
            tensor = (tensor[:, None] * w).flatten()
            tensors.append(a.sqrt() * tensor)
        W.append(torch.cat(tensors[read]))
    for i in range(4):
        states = torch.zeros(len(X), **DOUBLE)
        for n, x in enumerate(X):
            if len(x):
                states[n] = (alpha[read, i] * layer.cell_states(x)[-1, read, i]).sum()
        torch.testing.assert_close(Phi[:, i] @ W[i], states, **CLOSE)
        torch.testing.assert_close(k.unit(i).value(X), states, **CLOSE)
        torch.testing.assert_close(k.unit(i)(X), Phi[:, i] @ Phi[:, i].T, **CLOSE)
    torch.testing.assert_close(k(X), torch.einsum("ahf,bhf->ab", Phi, Phi), **CLOSE)


@pytest.mark.parametrize("combine", ["add", "add_exact"])
@pytest.mark.parametrize("normalized", [False, True, "exact"])
@pytest.mark.parametrize("readout", ["last", "sum"])
def test_a_chain_of_sums_is_linear_in_the_slots_of_its_reference(combine, normalized, readout):
    """Each feature is the state with a reference of one 1 and zeros elsewhere."""
    layer = chain(order=3, decay="state", combine=combine, normalized=normalized, readout=readout)
    k, X = LearnedKernel(layer), sequences(6)
    unit = k.unit(2)
    states = torch.zeros(6, **DOUBLE)
    for n, x in enumerate(X):
        if len(x):
            c = layer.cell_states(x)[-1, :, 2]
            states[n] = c[-1] if readout == "last" else c.sum()
    torch.testing.assert_close(unit.value(X), states, **CLOSE)
    if readout == "last":
        features = torch.stack(
            [unit.value(X, row.view(3, 3)) for row in torch.eye(9, **DOUBLE)], dim=1
        )
        torch.testing.assert_close(features @ unit.reference.flatten(), states, **CLOSE)
        torch.testing.assert_close(unit(X), features @ features.T, **CLOSE)
    assert smallest_eigenvalue(k(sequences(40))) > -1e-13


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_features_and_all_pairs_of_steps_give_one_gram_matrix(order):
    """A layer of many features takes the second form."""
    layer = StringKernelRNN(40, 2, order=order, decay="state", **DOUBLE)
    X = sequences(6, 40)
    held = layer.held_chain(torch.nn.utils.rnn.pad_sequence(X), torch.tensor([len(x) for x in X]))
    maps = held.maps().flatten(1)
    torch.testing.assert_close(LearnedKernel(layer)(X), maps @ maps.T, rtol=1e-10, atol=1e-6)
    torch.testing.assert_close(LearnedKernel(layer).diag(X), maps.square().sum(1), rtol=1e-10,
                               atol=1e-6)  # fmt: skip
    torch.testing.assert_close(LearnedKernel(layer)(X, X[2:]), (maps @ maps.T)[:, 2:], rtol=1e-10,
                               atol=1e-6)  # fmt: skip


X = torch.tensor([[1.0, 2.0], [0.0, 1.0], [-1.0, 1.0]], **DOUBLE)
Y = torch.tensor([[2.0, 0.0], [1.0, 1.0]], **DOUBLE)


@pytest.mark.parametrize(
    ("normalized", "value", "product"), [(False, 0.4, 1.6), (True, -0.14, 0.0384)]
)
def test_the_printed_gates_of_a_chain_give_the_printed_numbers(
    normalized, value, product, monkeypatch
):
    layer = StringKernelRNN(2, 1, order=2, decay="input", normalized=normalized, **DOUBLE)
    with torch.no_grad():
        layer.weight_ih_l0[:2] = torch.tensor([[1.0, -1.0], [2.0, 1.0]])
    gates = {3: [0.5, 0.2, 0.8], 2: [0.9, 0.4]}
    monkeypatch.setattr(
        "representer.nn.recurrent.string.StringDirection.decays",
        lambda self, x, z: torch.tensor(gates[len(x)], **DOUBLE)[:, None, None],
    )
    unit = LearnedKernel(layer).unit(0)
    torch.testing.assert_close(unit.value([X]).item(), value, **CLOSE)
    torch.testing.assert_close(unit([X], [Y]).item(), product, **CLOSE)
    if not normalized:
        axes = torch.eye(2, **DOUBLE)
        Phi = [unit.value([X], torch.stack((a, b))).item() for a in axes for b in axes]
        torch.testing.assert_close(Phi, [-0.2, 1.0, -1.4, 3.0], **CLOSE)


# Networks of walks: the sum over walks.


def graphs(count: int, edges: int = 2) -> list[Data]:
    drawn = []
    for i in range(count):
        nodes, number = 1 + i % 5, (3 * i) % 8
        drawn.append(Data(
            x=torch.randn(nodes, 3, **DOUBLE),
            edge_index=torch.randint(nodes, (2, number)),
            edge_attr=torch.randn(number, edges, **DOUBLE),
        ))  # fmt: skip
    return drawn


def gates_by_hand(gate: Any, graph: Data, labels: Tensor) -> Tensor:
    """Return λ of every edge ``(E, H)``."""
    if isinstance(gate, Tensor):
        return gate.expand(graph.edge_index.shape[1], 4)
    source, target = graph.edge_index
    z = labels[source] @ gate["source"].T + labels[target] @ gate["target"].T + gate["bias"]
    return (z + graph.edge_attr @ gate["edge"].T if "edge" in gate else z).sigmoid()


def walk_map(graph: Data, labels: Tensor, gates: Tensor, order: int, with_edges: bool) -> Tensor:
    """Return Φ of every unit ``(H, D)`` by listing all walks."""
    size = labels.shape[1] ** order * (graph.edge_attr.shape[1] if with_edges else 1) ** (order - 1)
    total = torch.zeros(4, size, **DOUBLE)
    for nodes, edges in walks(graph.edge_index, len(labels), order):
        tensor = labels[nodes[0]]
        for v, e in zip(nodes[1:], edges, strict=True):
            factor = (
                (graph.edge_attr[e][:, None] * labels[v]).flatten() if with_edges else labels[v]
            )
            tensor = (tensor[:, None] * factor).flatten()
        total = total + gates[edges].prod(0)[:, None] * tensor
    return total


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("decay", ["learned", "gated"])
@pytest.mark.parametrize("edge_dim", [None, 2])
def test_a_network_of_walks_is_the_inner_product_of_the_features_of_walks(order, decay, edge_dim):
    torch.manual_seed(5)
    net, G = RandomWalkKernelNN(3, 4, order, decay, edge_dim=edge_dim, **DOUBLE), graphs(9)
    for p in net.parameters():
        torch.nn.init.normal_(p, std=0.5)
    gate = net.decay_gate()
    maps = [walk_map(g, g.x, gates_by_hand(gate, g, g.x), order, edge_dim is not None) for g in G]
    Phi, k = torch.stack(maps), LearnedKernel(net)
    states = torch.cat([net(g.x, g.edge_index, edge_features(net, g)) for g in G])
    for i in range(4):
        torch.testing.assert_close(k.unit(i).value(G), states[:, i], **CLOSE)
        torch.testing.assert_close(k.unit(i)(G), Phi[:, i] @ Phi[:, i].T, **CLOSE)
    torch.testing.assert_close(k(G), torch.einsum("ahf,bhf->ab", Phi, Phi), **CLOSE)
    torch.testing.assert_close(k.diag(G), k(G).diagonal(), **CLOSE)
    assert smallest_eigenvalue(k(graphs(40))) > -1e-14


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("readout", ["sum", "last"])
@pytest.mark.parametrize("labels", [0, 3])
def test_a_weisfeiler_lehman_network_adds_the_features_of_its_levels(share, readout, labels):
    torch.manual_seed(6)
    net = WLKernelNN(3, 4, 3, 2, "gated", readout=readout, share_references=share,
                     label_channels=labels, **DOUBLE)  # fmt: skip
    G, k, Gram = graphs(9), LearnedKernel(net), torch.zeros(9, 9, **DOUBLE)
    for level in range(3) if readout == "sum" else (2,):
        w = net.level_walks(level)
        gate = {"source": w.gates[0], "target": w.gates[1], "bias": w.gate_bias}
        maps = []
        for g in G:
            h = net.labels(g.x, g.edge_index, level=level)
            maps.append(walk_map(g, h, gates_by_hand(gate, g, h), 2, False))
        Phi = torch.stack(maps)
        Gram = Gram + torch.einsum("ahf,bhf->ab", Phi, Phi)
    torch.testing.assert_close(k(G), Gram, **CLOSE)
    states = torch.cat([net(g.x, g.edge_index) for g in G])
    values = torch.stack([k.unit(i).value(G) for i in range(4)], dim=1)
    torch.testing.assert_close(values, states, **CLOSE)
    assert smallest_eigenvalue(k(graphs(40))) > -1e-14


@pytest.mark.parametrize("combine", ["multiply", "add"])
@pytest.mark.parametrize("nonlinear", [False, "polynomial", "exponential"])
def test_gated_walks_with_a_mercer_activation_compare_a_graph_with_a_path(combine, nonlinear):
    """K^j(v, v') = <f_v, f_v'> ∘ Σ Σ λ λ' σ(K^{j−1}(u, u')), and 0 where no walk ends."""
    torch.manual_seed(7)
    net, every = RandomWalkKernelNN(3, 4, 3, "gated", combine, nonlinear, **DOUBLE), graphs(40)
    for g in every:
        g.x = 0.3 * g.x
    G = every[:6]
    q = {False: lambda z: z, "polynomial": lambda z: (z + 1) ** 2 / 4,
         "exponential": lambda z: z.expm1() / 2}[nonlinear]  # fmt: skip
    k = LearnedKernel(net)
    expected = torch.zeros(6, 6, **DOUBLE)
    gate = net.decay_gate()
    for i in range(4):
        for a, g in enumerate(G):
            for b, other in enumerate(G):
                lam, mu = (gates_by_hand(gate, one, one.x)[:, i] for one in (g, other))
                K = S = g.x @ other.x.T
                for j in (2, 3):
                    sums, reached = torch.zeros_like(K), torch.zeros_like(K, dtype=torch.bool)
                    for e, (u, v) in enumerate(g.edge_index.T.tolist()):
                        for f, (s, t) in enumerate(other.edge_index.T.tolist()):
                            sums[v, t] += lam[e] * mu[f] * q(K[u, s])
                    ends = [
                        {w[0][-1] for w in walks(o.edge_index, len(o.x), j)} for o in (g, other)
                    ]
                    for v in ends[0]:
                        for t in ends[1]:
                            reached[v, t] = True
                    K = torch.where(reached, S * sums if combine == "multiply" else S + sums, 0.0)
                expected[a, b] += K.sum().detach()
    torch.testing.assert_close(k(G).detach(), expected, **CLOSE)
    states = torch.cat([net(g.x, g.edge_index) for g in G])
    values = torch.stack([k.unit(i).value(G) for i in range(4)], dim=1)
    torch.testing.assert_close(values, states, **CLOSE)
    assert smallest_eigenvalue(k(every)) > -1e-14


def test_the_printed_gates_of_walks_give_the_printed_numbers(monkeypatch):
    net = RandomWalkKernelNN(2, 1, 2, "gated", **DOUBLE)
    with torch.no_grad():
        net.walks.weight.copy_(torch.tensor([[1.0, -1.0], [2.0, 1.0]]))
    G = [
        Data(x=X, edge_index=torch.tensor([[0, 1, 0], [1, 2, 2]])),
        Data(x=Y, edge_index=torch.tensor([[0], [1]])),
    ]
    gates = {3: [0.5, 0.25, 1.0], 1: [0.5], 4: [0.5, 0.25, 1.0, 0.5]}
    monkeypatch.setattr(
        "representer.nn.graph.walks.WalkStates.edge_gates",
        lambda self, x, edges, attributes: torch.tensor(gates[edges.shape[1]], **DOUBLE)[:, None],
    )
    unit, axes = LearnedKernel(net).unit(0), torch.eye(2, **DOUBLE)
    torch.testing.assert_close(unit.value(G[:1]).item(), 0.75, **CLOSE)
    torch.testing.assert_close(unit(G)[0, 1].item(), 0.5, **CLOSE)
    Phi = [unit.value(G[:1], torch.stack((a, b))).item() for a in axes for b in axes]
    torch.testing.assert_close(Phi, [-1.0, 1.5, -2.25, 3.25], **CLOSE)


# Networks of trees: the sum over downward chains.


def trees(count: int) -> list[Data]:
    drawn = []
    for i in range(count):
        nodes = 1 + i % 6
        parents = [int(torch.randint(v, ())) for v in range(1, nodes)]
        ends = torch.tensor([list(range(1, nodes)), parents], dtype=torch.int64).reshape(2, -1)
        drawn.append(Data(x=torch.randn(nodes, 3, **DOUBLE), edge_index=ends))
    return drawn


def chain_map(tree: Data, decays: Tensor, order: int, ordered: bool) -> Tensor:
    """Return Φ of every unit ``(H, D)`` by listing all chains of proper descendants."""
    child, parent = tree.edge_index.tolist()
    above = {u: (e, v) for e, (u, v) in enumerate(zip(child, parent, strict=True))}
    rank = {u: parent[:e].count(v) for u, (e, v) in above.items()}
    total = torch.zeros(4, 3**order * (8 ** (order - 1) if ordered else 1), **DOUBLE)
    for nodes in combinations(range(len(tree.x) - 1, -1, -1), order):
        path, edges = [nodes[0]], []  # from the deepest node to the root
        while path[-1] in above:
            e, v = above[path[-1]]
            edges.append(e)
            path.append(v)
        if any(v not in path for v in nodes):
            continue
        skipped = [e for e, upper in zip(edges, path[1:], strict=True) if upper not in nodes]
        tensor = tree.x[nodes[0]]
        for v in nodes[1:]:
            if ordered:
                below = path[path.index(v) - 1]
                tensor = (tensor[:, None] * torch.eye(8, **DOUBLE)[rank[below]]).flatten()
            tensor = (tensor[:, None] * tree.x[v]).flatten()
        total = total + decays[skipped].prod(0)[:, None] * tensor
    return total


@pytest.mark.parametrize("decay", ["learned", "gated", "state"])
@pytest.mark.parametrize(("order", "ordered"), [(1, True), (2, False), (3, True), (3, False)])
def test_a_network_of_trees_is_the_inner_product_of_the_features_of_chains(order, decay, ordered):
    torch.manual_seed(8)
    net, T = TreeKernelNN(3, 4, order, decay, ordered, activation="tanh", **DOUBLE), trees(7)
    for p in net.parameters():
        torch.nn.init.normal_(p, std=0.5)
    maps = [chain_map(t, net.edge_decays(t.x, t.edge_index), order, ordered) for t in T]
    Phi, k = torch.stack(maps), LearnedKernel(net)
    states = torch.cat([net(t.x, t.edge_index) for t in T]).atanh()
    for i in range(4):
        torch.testing.assert_close(k.unit(i).value(T), states[:, i], **CLOSE)
        torch.testing.assert_close(k.unit(i)(T), Phi[:, i] @ Phi[:, i].T, **CLOSE)
    torch.testing.assert_close(k(T), torch.einsum("ahf,bhf->ab", Phi, Phi), **CLOSE)
    torch.testing.assert_close(k.diag(T), k(T).diagonal(), **CLOSE)
    assert smallest_eigenvalue(k(trees(40))) > -1e-14


@pytest.mark.parametrize(("order", "rows", "value"), [(2, [(1, 2), (2, 1)], 21.9),
                                                      (1, [(1, 2)], 4.21)])  # fmt: skip
def test_the_printed_gates_of_a_tree_give_the_printed_numbers(order, rows, value, monkeypatch):
    net = TreeKernelNN(2, 1, order, "gated", **DOUBLE)
    with torch.no_grad():
        net.weight.copy_(torch.tensor(rows))
    x = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, 1.0], [1.0, 1.0]], **DOUBLE)
    tree = Data(x=x, edge_index=torch.tensor([[1, 2, 3], [0, 0, 1]]))
    gates = torch.tensor([[0.3], [0.6], [0.9]], **DOUBLE)
    monkeypatch.setattr(TreeKernelNN, "edge_decays", lambda self, x, edges: gates)
    torch.testing.assert_close(LearnedKernel(net).unit(0).value([tree]).item(), value, **CLOSE)
