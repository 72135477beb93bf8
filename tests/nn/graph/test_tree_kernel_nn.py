"""The network of the tree kernel."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch, Data

from drawn_trees import F64, T, path, tree
from representer.errors import ArgumentError, KindError, ShapeError
from representer.kernels import LearnedKernel, StringKernel, TreeKernel
from representer.nn import StringKernelRNN, TreeKernelNN, path_graph

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
DECAYS = (0.5, "learned", "gated", "state")
OPTIONS = [
    {"decay": decay, "order": order, "ordered": ordered}
    for decay in DECAYS
    for order, ordered in ((1, False), (3, False), (3, True))
]
every_option = pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda o: "-".join(map(str, o.values()))
)


def made(options, dtype=F64, **others) -> TreeKernelNN:
    torch.manual_seed(1)
    net = TreeKernelNN(3, 4, **options, **others, dtype=dtype)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return net


def gate(net: TreeKernelNN, x_child, x_parent, h_child) -> torch.Tensor:
    """Return λ of an edge, as written in the documentation."""
    g = net.decay_gate()
    if isinstance(g, torch.Tensor):
        return g.expand(4)
    z = g["target"] @ x_parent + g["bias"]
    z = z + (g["source"] @ x_child if "source" in g else g["state"] @ h_child)
    return net.gate_scale * torch.sigmoid(z)


@every_option
def test_the_states_match_the_equations_written_out(options):
    net, G = made(options, gate_scale=1.5, activation="tanh"), tree(3, 9)
    w, a = net.references(), net.edge_references()
    children = {v: [u for u, p in G.edge_index.T.tolist() if p == v] for v in range(9)}

    def states(v: int) -> torch.Tensor:
        below = [states(u) for u in children[v]]
        rows = []
        for j in range(net.order):
            c = torch.zeros(4, dtype=F64) if j else w[:, 0] @ G.x[v]
            for i, (u, c_u) in enumerate(zip(children[v], below, strict=True)):
                c = c + gate(net, G.x[u], G.x[v], torch.tanh(c_u[-1])) * c_u[j]
                if j:
                    step = 1 if a is None else a[:, j - 1, i]
                    c = c + step * c_u[j - 1] * (w[:, j] @ G.x[v])
            rows.append(c)
        return torch.stack(rows)

    expected = torch.stack([states(v) for v in range(9)])
    torch.testing.assert_close(net.node_states(G.x, G.edge_index), expected, **CLOSE)
    (root,) = set(range(9)) - set(G.edge_index[0].tolist())
    torch.testing.assert_close(net(G.x, G.edge_index)[0], expected[root, -1].tanh(), **CLOSE)


def test_order_1_with_the_state_is_the_memory_of_the_child_sum_tree_lstm():
    """c_v = i u + sum_k f_vk c_k, i = 1, u = W x, f_vk = sigmoid(W x_v + U h_k + b)."""
    net, G = made({"decay": "state"}), tree(5, 8)
    weights, W = net.decay_gate(), net.references()[:, 0]
    c = {}

    def memory(v: int) -> torch.Tensor:
        total = W @ G.x[v]
        for k, parent in G.edge_index.T.tolist():
            if parent == v:
                c_k = h_k = memory(k)  # without its output gate and tanh
                f = torch.sigmoid(
                    weights["target"] @ G.x[v] + weights["state"] @ h_k + weights["bias"]
                )
                total = total + f * c_k
        c[v] = total
        return total

    (root,) = set(range(8)) - set(G.edge_index[0].tolist())
    torch.testing.assert_close(net(G.x, G.edge_index)[0], memory(root), **CLOSE)
    torch.testing.assert_close(
        net.node_states(G.x, G.edge_index)[:, 0], torch.stack([c[v] for v in range(8)]), **CLOSE
    )


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_unit_is_the_kernel_of_the_tree_and_its_reference(order, ordered):
    net = made({"decay": 0.6, "order": order, "ordered": ordered}, max_children=2)
    assert net.kernel.get_params() == TreeKernel(order, 0.6, ordered).get_params()
    trees = [tree(n, 3 + n, roots=1 + n % 2) for n in range(5)]
    joined = Batch.from_data_list(trees)
    found = net(joined.x, joined.edge_index, joined.batch)
    torch.testing.assert_close(found, net.kernel(trees, net.reference_objects()), **CLOSE)


def test_initial_references_of_the_ordered_network_are_plain_paths():
    net = TreeKernelNN(3, 4, 3, 0.5, ordered=True, dtype=F64)
    paths, trees = [path_graph(r) for r in net.references()], [tree(n, 9) for n in range(3)]
    found = torch.cat([net(G.x, G.edge_index) for G in trees])
    torch.testing.assert_close(found, TreeKernel(3, 0.5, ordered=True)(trees, paths), **CLOSE)


@pytest.mark.parametrize("decay", [0.5, "learned", "state"])
def test_a_path_is_a_sequence(decay):
    """The node at the root is the last token."""
    net = made({"decay": decay, "order": 2})
    cell = StringKernelRNN(3, 4, order=2, decay=decay, activation=None, dtype=F64)
    cell.references().copy_(net.references())
    if decay == "learned":
        cell.decay_logit_l0.data.copy_(net.decay_logit)
    x = tree(0, 6).x
    found = net(x, path(x).edge_index)
    if decay == "state":  # which is a gate on h_{t-1} with a reset for each unit
        g = net.decay_gate()
        c = torch.zeros(2, 4, dtype=F64)
        for x_t in x:
            lam = torch.sigmoid(g["target"] @ x_t + g["state"] @ c[1] + g["bias"])
            p = net.references() @ x_t
            c = lam * c + torch.stack((p[:, 0], c[0] * p[:, 1]))
        torch.testing.assert_close(found[0], c[1], **CLOSE)
    else:
        torch.testing.assert_close(found[0], cell(x)[0][-1], **CLOSE)
    if decay == 0.5:
        kernel = StringKernel(2, 0.5)([x], list(net.references()))
        torch.testing.assert_close(found, kernel, **CLOSE)


@every_option
def test_the_decay_of_edges_is_that_of_the_recurrence(options):
    net, G = made(options), tree(3, 9)
    decays, states = net.edge_decays(G.x, G.edge_index), net.node_states(G.x, G.edge_index)[:, -1]
    for e, (u, v) in enumerate(G.edge_index.T.tolist()):
        torch.testing.assert_close(decays[e], gate(net, G.x[u], G.x[v], states[u]), **CLOSE)


@pytest.mark.parametrize("decay", DECAYS)
def test_gates_and_own_decays_have_the_kernel_that_they_have_learned(decay):
    kernel = made({"decay": decay}, activation="tanh").kernel  # that of the state before tanh
    assert type(kernel) is (TreeKernel if decay == 0.5 else LearnedKernel)
    assert kernel.objects == "trees"


def test_children_beyond_the_weights_of_positions_have_the_weight_0():
    star = Data(x=torch.randn(4, 3, dtype=F64), edge_index=torch.tensor([[1, 2, 3], [0, 0, 0]]))
    net = made({"decay": 0.0, "order": 2, "ordered": True}, max_children=2)
    first = net(star.x[:3], star.edge_index[:, :2])
    torch.testing.assert_close(net(star.x, star.edge_index), first, **CLOSE)


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"edge_index": torch.tensor([[0, 1], [1, 0]])}, ArgumentError, "a cycle above node 0"),
    ({"edge_index": torch.tensor([[0, 0], [1, 2]])}, ArgumentError, "parents"),
    ({"edge_index": torch.tensor([[0], [4]])}, ArgumentError, "expected 0 to 3, the nodes"),
    ({"edge_index": torch.zeros(3, 2).long()}, ShapeError, "edge_index"),
    ({"x": T.x.float()}, KindError, "x is torch.float32"),
    ({"batch": torch.zeros(3).long()}, ShapeError, "batch"),
])  # fmt: skip
def test_wrong_trees_are_refused(changes, error, message):
    net = TreeKernelNN(2, 3, dtype=F64)
    with pytest.raises(error, match=message):
        net(**{"x": T.x, "edge_index": T.edge_index} | changes)
