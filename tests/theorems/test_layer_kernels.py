"""The kernel of every layer: its states, its Gram matrix, and Theorems 2 and 4 for stacks.

Liang et al. 2019, (5), (9), (15); Lei et al. 2017, (3), (6), (11), Theorems 2 and 4.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_oracles import smallest_eigenvalue
from torch import Tensor, nn
from torch_geometric.data import Data

from drawn_graphs import edge_features
from representer.kernels import (
    DeepGraphKernel,
    DeepStringKernel,
    Embedded,
    LearnedKernel,
    Linear,
    Polynomial,
    RandomWalkKernel,
    RecurrentKernel,
    StringKernel,
    WeisfeilerLehmanKernel,
)
from representer.nn import (
    CNN,
    RAN,
    RKM,
    RKMCIFG,
    RKMLSTM,
    DeepGraphKernelNN,
    GatedCNN,
    LinearKernelRNN,
    RandomWalkKernelNN,
    StringKernelRNN,
    WLKernelNN,
    path_graph,
)

DOUBLE: Any = {"dtype": torch.float64}
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def sequences(count: int, scale: float = 0.3) -> list[Tensor]:
    return [scale * torch.randn(1 + (5 * i) % 6, 3, **DOUBLE) for i in range(count)]


def graphs(count: int) -> list[Data]:
    drawn = []
    for i in range(count):
        nodes, edges = 1 + i % 5, (3 * i) % 8
        x = 0.5 * torch.randn(nodes, 3, **DOUBLE)
        drawn.append(Data(x=x, edge_index=torch.randint(nodes, (2, edges)),
                          edge_attr=torch.randn(edges, 2, **DOUBLE)))  # fmt: skip
    return drawn


FREE: Any = {"output_gate": False, "feedback": False}
LAYERS: dict[str, tuple[nn.Module, type]] = {
    "RKM": (RKM(3, 4, q="exponential", feedback=False, **DOUBLE), RecurrentKernel),
    "RKM, two layers": (RKM(3, 4, 2, q="inverse", feedback=False, **DOUBLE), RecurrentKernel),
    "RKM, feedback": (RKM(3, 4, q="linear", **DOUBLE), LearnedKernel),
    "RKM-LSTM": (RKMLSTM(3, 4, filter_length=2, **DOUBLE), LearnedKernel),
    "RKM-LSTM, three layers": (RKMLSTM(3, 4, 3, **DOUBLE), LearnedKernel),
    "RKM-CIFG": (RKMCIFG(3, 4, **DOUBLE), LearnedKernel),
    "RAN": (RAN(3, 4, **DOUBLE), LearnedKernel),
    "Linear Kernel": (LinearKernelRNN(3, 4, **FREE, **DOUBLE), RecurrentKernel),
    "Linear Kernel, two layers": (LinearKernelRNN(3, 4, 2, **FREE, **DOUBLE), RecurrentKernel),
    "Linear Kernel, gate": (LinearKernelRNN(3, 4, feedback=False, **DOUBLE), LearnedKernel),
    "Linear Kernel, feedback": (LinearKernelRNN(3, 4, output_gate=False, **DOUBLE), LearnedKernel),
    "Linear Kernel, learned": (
        LinearKernelRNN(3, 4, learn_static_gates=True, **FREE, **DOUBLE), LearnedKernel
    ),
    "Gated CNN": (GatedCNN(3, 4, filter_length=2, **DOUBLE), LearnedKernel),
    "CNN": (CNN(3, 4, filter_length=3, dilation=2, **DOUBLE), RecurrentKernel),
    "CNN, two layers": (CNN(3, 4, 2, batch_first=True, **DOUBLE), RecurrentKernel),
    "string": (StringKernelRNN(3, 4, decay=0.5, **DOUBLE), StringKernel),
    "string, added": (
        StringKernelRNN(3, 4, decay=0.5, combine="add_exact", **DOUBLE), StringKernel
    ),
    "string, three layers": (StringKernelRNN(3, 4, 3, decay=0.5, **DOUBLE), StringKernel),
    "string, gated": (StringKernelRNN(3, 4, order=3, **DOUBLE), LearnedKernel),
    "string, gated, two layers": (StringKernelRNN(3, 4, 2, **DOUBLE), LearnedKernel),
    "string, as printed": (
        StringKernelRNN(3, 4, decay=0.5, combine="add", **DOUBLE), LearnedKernel
    ),
    "string, summed": (StringKernelRNN(3, 4, decay=0.5, readout="sum", **DOUBLE), LearnedKernel),
    "string, weighted": (
        StringKernelRNN(3, 4, decay=0.5, readout="weighted", **DOUBLE), LearnedKernel
    ),
    "string, two orders": (StringKernelRNN(3, 4, 2, order=(2, 1), **DOUBLE), LearnedKernel),
    "string, a callable": (
        StringKernelRNN(3, 4, 2, order=(1, 3), decay=0.5, activation=torch.sin, **DOUBLE),
        StringKernel,
    ),
    "string, highway": (StringKernelRNN(3, 3, decay=0.5, highway=True, **DOUBLE), LearnedKernel),
}  # fmt: skip


def last_state(layer: Any, x: Tensor) -> Tensor:
    """Return the state of the last step, before activations of string chains and of cells."""
    if isinstance(layer, StringKernelRNN):
        c = layer.cell_states(x)[-1]
        return c[-1] if layer.readout == "last" else (layer.readout_weights() * c).sum(0)
    output, state = layer(x)
    if layer.cell.output == "identity" or isinstance(layer, RKM):
        return output[-1]
    return state.c[0] if hasattr(state, "c") else output[-1].atanh()


@pytest.mark.parametrize("name", LAYERS)
def test_the_kernel_of_a_recurrent_layer_gives_its_states_and_a_gram_matrix(name):
    layer: Any
    layer, expected = LAYERS[name]
    k, X, above = layer.kernel, sequences(40), layer.num_layers - 1
    inner = k.kernel if above else k
    assert type(k) is (Embedded if above else expected)
    assert type(inner) is expected
    if getattr(layer, "readout", "last") == "weighted":
        torch.nn.init.normal_(layer.readout_l0)
    behind = [layer.below()(x)[0] for x in X[:7]] if above else X[:7]
    states = torch.stack([last_state(layer.part(above), x) for x in behind])
    if expected is LearnedKernel:
        units = range(layer.hidden_size)
        values = torch.stack([inner.unit(i).value(behind) for i in units], dim=1)
        torch.testing.assert_close(k(X[:7]), sum(inner.unit(i)(behind) for i in units), **CLOSE)
    else:
        values = k(X[:7], list(layer.references(layer=above)))
    torch.testing.assert_close(values, states, **CLOSE)
    torch.testing.assert_close(layer.evaluate(X[:7]), states, **CLOSE)
    assert smallest_eigenvalue(k(X)) > -1e-13
    torch.testing.assert_close(k.diag(X), k(X).diagonal(), **CLOSE)


NETS: dict[str, tuple[nn.Module, type]] = {
    "walks": (RandomWalkKernelNN(3, 4, 3, 0.7, activation="tanh", **DOUBLE), RandomWalkKernel),
    "walks, gated": (RandomWalkKernelNN(3, 4, 2, "gated", edge_dim=2, **DOUBLE), LearnedKernel),
    "WL": (WLKernelNN(3, 4, 3, label_channels=0, **DOUBLE), WeisfeilerLehmanKernel),
    "WL, labels": (WLKernelNN(3, 4, 3, edge_dim=2, **DOUBLE), WeisfeilerLehmanKernel),
    "WL, last": (WLKernelNN(3, 4, 3, readout="last", **DOUBLE), RandomWalkKernel),
    "WL, gated": (WLKernelNN(3, 4, 3, decay="gated", **DOUBLE), LearnedKernel),
    "WL, references": (WLKernelNN(3, 4, 3, share_references=False, **DOUBLE), LearnedKernel),
    "deep": (
        DeepGraphKernelNN(3, 4, nonlinear="polynomial", num_layers=3, **DOUBLE), RandomWalkKernel
    ),
    "deep, gated": (DeepGraphKernelNN(3, 4, 2, "gated", nonlinear=False, **DOUBLE), LearnedKernel),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_the_kernel_of_a_graph_network_gives_its_states_and_a_gram_matrix(name):
    net: Any
    net, expected = NETS[name]
    k, G = net.kernel, graphs(40)
    inner = k.kernel if isinstance(k, Embedded) else k
    assert type(inner) is expected
    states = torch.stack(
        [net.node_states(g.x, g.edge_index, edge_features(net, g))[:, -1].sum(0) for g in G[:8]]
    )
    if expected is LearnedKernel:
        behind = k.embedded(G[:8])[0] if isinstance(k, Embedded) else G[:8]
        values = torch.stack([inner.unit(i).value(behind) for i in range(4)], dim=1)
    else:
        last: Any = net.part(net.num_layers - 1) if isinstance(net, DeepGraphKernelNN) else net
        edges = last.edge_references()
        paths = [path_graph(r, None if edges is None else edges[i])
                 for i, r in enumerate(last.references())]  # fmt: skip
        values = k(G[:8], paths)
    torch.testing.assert_close(values, states, **CLOSE)
    torch.testing.assert_close(net.evaluate(G[:8]), states, **CLOSE)
    assert smallest_eigenvalue(k(G)) > -1e-13
    torch.testing.assert_close(k.diag(G), k(G).diagonal(), **CLOSE)


def test_a_deep_network_whose_activation_is_no_mercer_kernel_has_none():
    with pytest.raises(TypeError, match="tanh has no power series"):
        DeepGraphKernelNN(3, 4).kernel  # noqa: B018


class Squared(nn.Module):
    """A layer with the activation z²."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0] ** 2


@pytest.mark.parametrize("activation", [None, "square"])
@pytest.mark.parametrize(("n", "m"), [(1, 2), (2, 2), (2, 1)])
def test_theorem_2_the_functions_of_a_stack_lie_in_the_space_of_the_deep_kernel(activation, n, m):
    """‖M‖^(2m) K_deep − K_embedded is positive semidefinite, where h_t = M φ(x_1 … x_t)."""
    torch.manual_seed(1)
    first = StringKernelRNN(3, 4, order=n, decay=0.5, activation=None, **DOUBLE)
    of_references = StringKernel(n, 0.5)(list(first.references()))
    if activation is None:
        stack = StringKernelRNN(3, 4, 2, order=n, decay=0.5, activation=None, **DOUBLE)
        first = stack.part(0)
        of_references = StringKernel(n, 0.5)(list(stack.references()))
        embedded = Embedded(StringKernel(m, 0.5), stack.below(), repeat=True)
        if n == m:
            assert stack.kernel.kernel.get_params() == embedded.kernel.get_params()
            embedded = stack.kernel
        deep = DeepStringKernel((n, m), 0.5, Linear())
    else:
        embedded = Embedded(StringKernel(m, 0.5), Squared(first), repeat=True)
        deep = DeepStringKernel((n, m), 0.5, Polynomial(2, offset=0.0))
        of_references = of_references**2
    bound = float(torch.linalg.eigvalsh(of_references)[-1]) ** m
    X = sequences(40, scale=1.0)
    K_deep, K_embedded = deep(X), embedded(X).detach()
    assert smallest_eigenvalue(bound * K_deep - K_embedded) > -1e-13
    assert smallest_eigenvalue(1e-3 * bound * K_deep - K_embedded) < -1e-6  # the bound matters
    references = [torch.randn(m, 4, **DOUBLE) for _ in range(3)]
    for r, f in zip(references, embedded(X, references).detach().T, strict=True):
        norm = bound * float(r.square().sum(1).prod())
        assert smallest_eigenvalue(norm * K_deep - f[:, None] * f) > -1e-13


@pytest.mark.parametrize("order", [1, 2])
def test_theorem_4_the_functions_of_a_deep_graph_network_lie_in_the_space_of_its_kernel(order):
    torch.manual_seed(2)
    net = DeepGraphKernelNN(3, 4, order, 0.7, "multiply", nonlinear=False, num_layers=2, **DOUBLE)
    deep = DeepGraphKernel(order, 2, 0.7, "multiply", Linear())
    paths = [path_graph(r) for r in net.references()]
    U = net.mixing[0].detach()
    of_labels = U @ RandomWalkKernel(order, 0.7)(paths) @ U.T
    bound = float(torch.linalg.eigvalsh(of_labels)[-1]) ** order
    G = graphs(40)
    K_deep, K_embedded = deep(G), net.kernel(G).detach()
    assert smallest_eigenvalue(bound * K_deep - K_embedded) > -1e-13
    assert smallest_eigenvalue(1e-3 * bound * K_deep - K_embedded) < -1e-6
    states = torch.stack([net.node_states(g.x, g.edge_index)[:, -1].sum(0) for g in G]).detach()
    for r, f in zip(net.references(1), states.T, strict=True):
        norm = bound * 0.7 ** (order - 1) * float(r.square().sum(1).prod())
        assert smallest_eigenvalue(norm * K_deep - f[:, None] * f) > -1e-13
