"""Lei et al. (2017), section 3.3, Theorem 4, appendix E: deep graph kernels and their networks.

Theorem 4 is checked with the feature maps of appendix E written out, for activations that have
finite ones: sigma(z) = z / 2 and (z + 1)^2 / 4, K_sigma being the same function of K.
"""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from graph2017_by_hand import Drawn, deep_local, ends_in, random_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from small_oracles import outer
from torch import Tensor
from torch_geometric.data import Data

from representer.kernels import DeepGraphKernel, Gaussian, RandomWalkKernel
from representer.nn import DeepGraphKernelNN, RandomWalkKernelNN, Relabeling

theorem = settings(deadline=None, max_examples=6)
SMALL = st.builds(
    random_graph, st.integers(1, 4), st.integers(0, 5), st.just(2), st.just(1),
    st.integers(0, 2**16), st.booleans(),
)  # fmt: skip
TINY = st.builds(
    random_graph, st.integers(1, 3), st.integers(0, 4), st.just(2), st.just(1),
    st.integers(0, 2**16),
)  # fmt: skip
decays = st.sampled_from([0.3, 1.0, 1.5])
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def data(graph: Drawn) -> Data:
    return Data(x=graph.x, edge_index=graph.edge_index)


def network(seed: int, layers: int, n: int, d: int = 2, **options) -> DeepGraphKernelNN:
    torch.manual_seed(seed)
    net = DeepGraphKernelNN(d, 2, order=n, num_layers=layers, dtype=torch.float64, **options)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return net


# sigma of the network, K_sigma, and phi_sigma = psi_sigma with <phi(u), phi(w)> = sigma(<u, w>)
ACTIVATIONS = {
    "linear": (lambda k, *_: k / 2, lambda u: u / math.sqrt(2)),
    "polynomial": (
        lambda k, *_: (k + 1) ** 2 / 4,
        lambda u: torch.cat((u.new_tensor([0.5]), u / math.sqrt(2), outer([u, u]) / 2)),
    ),
}


def states(net: DeepGraphKernelNN, G: Drawn) -> list[Tensor]:
    return [net.node_states(G.x, G.edge_index, layer=layer) for layer in range(net.num_layers)]


def feature_maps(G: Drawn, layers: int, n: int, lam: float, combine: str, phi_sigma):
    """phi^{(l,j)}(v) of appendix E, by (l, j, v)."""
    phi: dict[tuple[int, int, int], Tensor] = {}
    for k, j, v in product(range(1, layers + 1), range(1, n + 1), range(len(G.x))):
        own = G.x[v] if k == 1 else phi_sigma(phi[k - 1, n, v])
        if j == 1:
            phi[k, j, v] = own
            continue
        below = [phi_sigma(phi[k, j - 1, u]) for u, to in G.edges if to == v]
        blank = torch.zeros_like(phi_sigma(phi[k, j - 1, v]))
        around = math.sqrt(lam) * sum(below, blank)
        whole = outer([own, around]) if combine == "multiply" else torch.cat((own, around))
        phi[k, j, v] = whole if ends_in(G, v, j) else torch.zeros_like(whole)
    return phi


def references(net: DeepGraphKernelNN, lam: float, combine: str, psi_sigma):
    """psi^{(l)}_{i,j} of appendix E, by (l, j, i), and psi_sigma of the outputs, by (l, i)."""
    psi: dict[tuple[int, int, int], Tensor] = {}
    of_output: dict[tuple[int, int], Tensor] = {}
    for k in range(1, net.num_layers + 1):
        weight = net.walks[k - 1].nodes.detach()
        for j, i in product(range(1, net.order + 1), range(2)):
            row = weight[j - 1, i]
            if k > 1:
                row = sum(row[m] * of_output[k - 1, m] for m in range(2))
            if j == 1:
                psi[k, j, i] = row
                continue
            below = math.sqrt(lam) * psi_sigma(psi[k, j - 1, i])
            psi[k, j, i] = outer([row, below]) if combine == "multiply" else torch.cat((row, below))
        for i in range(2):
            mixed = sum(net.mixing[k - 1].detach()[i, m] * psi[k, net.order, m] for m in range(2))
            of_output[k, i] = psi_sigma(mixed)
    return psi, of_output


def assert_near(found: Tensor, expected: Tensor, terms: Tensor) -> None:
    """Assert that products agree to 1e-10 of the lengths of their factors.

    In these spaces terms of opposite signs may leave less than a millionth of themselves.
    """
    assert found.shape == expected.shape
    assert ((found - expected).abs() <= 1e-10 * terms.clamp(min=1)).all()


CASES = [  # of d features, as deep as the sizes of the feature maps allow
    ("multiply", "linear", 2, 3, 2), ("add", "linear", 3, 2, 2), ("add", "polynomial", 2, 2, 1),
    ("multiply", "polynomial", 1, 2, 2), ("multiply", "polynomial", 3, 1, 2),
]  # fmt: skip


@pytest.mark.parametrize(("combine", "sigma", "layers", "n", "d"), CASES)
@theorem
@given(G=SMALL, H=SMALL, lam=decays, seed=st.integers(0, 2**16))
def test_theorem_4_states_outputs_and_sums_are_products_in_the_deep_spaces(
    combine, sigma, layers, n, d, G, H, lam, seed
):
    """(i) c_j^(l)[v][i] = <phi^(l,j)(v), psi_ij>; (ii), (iii) h^(l)[v][i], h_G[i] activated."""
    G, H = (Drawn(g.x[:, :d], g.edge_index, g.edge_attr) for g in (G, H))
    net = network(seed, layers, n, d, combine=combine, nonlinear=sigma, decay=lam)
    _, phi_sigma = ACTIVATIONS[sigma]
    phi = feature_maps(G, layers, n, lam, combine, phi_sigma)
    psi, of_output = references(net, lam, combine, phi_sigma)
    found, expected = torch.stack(states(net, G)), torch.zeros(layers, len(G.x), n, 2).double()
    terms = torch.zeros_like(expected)
    for (k, j, v), feature in phi.items():
        for i in range(2):
            expected[k - 1, v, j - 1, i] = feature @ psi[k, j, i]
            terms[k - 1, v, j - 1, i] = feature.norm() * psi[k, j, i].norm()
    assert_near(found, expected, terms)
    total = sum(phi_sigma(phi[layers, n, v]) for v in range(len(G.x)))
    outputs = [of_output[layers, i] for i in range(2)]
    output = torch.stack([total @ psi_i for psi_i in outputs])
    terms = torch.stack([total.norm() * psi_i.norm() for psi_i in outputs])
    assert_near(net(G.x, G.edge_index)[0], output, terms)
    others = feature_maps(H, layers, n, lam, combine, phi_sigma)
    other = sum(phi_sigma(others[layers, n, v]) for v in range(len(H.x)))
    kernel = DeepGraphKernel(n, layers, lam, combine, sigma)
    K = kernel([data(G)], [data(H)])[0, 0]
    assert_near(K, total @ other, total.norm() * other.norm())


@pytest.mark.parametrize("combine", ["multiply", "add"])
@pytest.mark.parametrize("sigma", ["polynomial", "Gaussian"])
@settings(deadline=None, max_examples=3)
@given(G=TINY, H=TINY, lam=decays)
def test_section_3_3_the_kernel_is_its_recursion_in_depth_and_width(combine, sigma, G, H, lam):
    layers, n = 2, 2
    by_hand = ACTIVATIONS["polynomial"][0]
    activation: str | Gaussian = "polynomial"
    if sigma == "Gaussian":
        activation = Gaussian(1.5)
        by_hand = lambda k, xx, yy: math.exp(-(xx + yy - 2 * k) / (2 * 1.5**2))  # noqa: E731
    total = 0.0
    for v, w in product(range(len(G.x)), range(len(H.x))):
        rest = ((layers, n), lam, combine, by_hand, n)
        total += by_hand(
            deep_local(G, H, v, w, *rest),
            deep_local(G, G, v, v, *rest),
            deep_local(H, H, w, w, *rest),
        )
    found = DeepGraphKernel(n, layers, lam, combine, activation)([data(G)], [data(H)])
    torch.testing.assert_close(found[0, 0], torch.tensor(total, dtype=torch.float64), **CLOSE)


@theorem
@given(G=SMALL, n=st.integers(1, 3), lam=decays, seed=st.integers(0, 2**16))
def test_section_3_3_one_layer_is_the_walk_network_under_an_activation(G, n, lam, seed):
    deep = network(seed, 1, n, decay=lam, combine="add")
    flat = RandomWalkKernelNN(2, 2, n, lam, "add", nonlinear=True, dtype=torch.float64)
    flat.walks.load_state_dict(deep.walks[0].state_dict())
    c = flat.node_states(G.x, G.edge_index)
    torch.testing.assert_close(deep.node_states(G.x, G.edge_index), c, **CLOSE)
    h = torch.tanh(c[:, -1] @ deep.mixing[0].T).sum(0)
    torch.testing.assert_close(deep(G.x, G.edge_index)[0], h, **CLOSE)


def test_section_3_3_a_single_layer_of_the_kernel_is_the_walk_kernel():
    X = [data(random_graph(4, 7, 2, 1, seed)) for seed in range(4)]
    flat = RandomWalkKernel(3, 0.5, "add", nonlinear="polynomial")(X)
    deep = DeepGraphKernel(3, 1, 0.5, "add", "polynomial")(X)
    one = DeepGraphKernel(3, 1, 0.5, "add", "linear")(X)
    torch.testing.assert_close(one, RandomWalkKernel(3, 0.5, "add", nonlinear="linear")(X) / 2)
    assert not torch.allclose(deep, flat)  # appendix E activates the last level too


@theorem
@given(seed=st.integers(0, 2**16))
def test_9_layers_of_two_nodes_that_add_are_a_relabeling(seed):
    """h_v = sigma(U_1 h_v + U_2 sum sigma(V h_u)) with U_1 = U W^(2), U_2 = U, V = W^(1)."""
    G = random_graph(4, 9, 2, 1, seed)
    net = network(seed, 1, 2, combine="add")
    relabeling = Relabeling(2, activation="tanh", bias=False, dtype=torch.float64)
    first, second = net.walks[0].nodes.detach()
    with torch.no_grad():
        relabeling.weight[:] = torch.cat((first, net.mixing[0] @ second))
        relabeling.neighbors[:] = net.mixing[0]
    c = net.node_states(G.x, G.edge_index)[:, -1]
    h = torch.tanh(c @ net.mixing[0].T)
    reached = [ends_in(G, v, 2) for v in range(4)]  # elsewhere the kernel's case of no walk
    found = relabeling(G.x, G.edge_index)
    torch.testing.assert_close(found[reached], h[reached], **CLOSE)


@theorem
@given(seed=st.integers(0, 2**16))
def test_9_layers_of_two_nodes_that_multiply_are_a_relabeling(seed):
    """h_v = sigma(U_1 h_v * U_2 sum sigma(V h_u)) with U_1 = W^(2), V = W^(1) and U = U_2 = 1.

    Shared U and V over several levels are one relabeling that is repeated.
    """
    G = random_graph(4, 9, 2, 1, seed)
    net = network(seed, 2, 2, combine="multiply")
    relabeling = Relabeling(
        2, activation="tanh", bias=False, combine="multiply", dtype=torch.float64
    )
    with torch.no_grad():
        for mixing, walks in zip(net.mixing, net.walks, strict=True):
            mixing.copy_(torch.eye(2))
            walks.load_state_dict(net.walks[0].state_dict())
        relabeling.weight.copy_(net.walks[0].nodes.flatten(0, 1))
        relabeling.neighbors.copy_(torch.eye(2))
    h = G.x
    for layer in range(2):
        h = relabeling(h, G.edge_index)
        c = net.node_states(G.x, G.edge_index, layer=layer)[:, -1]
        torch.testing.assert_close(h, torch.tanh(c), **CLOSE)


@pytest.mark.parametrize("combine", ["multiply", "add"])
@pytest.mark.parametrize("decay", [0.7, "learned", "gated"])
@settings(deadline=None, max_examples=6)
@given(G=SMALL, n=st.integers(1, 3), seed=st.integers(0, 2**16))
def test_section_4_every_layer_has_decays_of_its_own(combine, decay, G, n, seed):
    """c_j[v] = W^(l,j) h[v] o sum_u lam^(l)_{u,v} sigma(c_{j-1}[u]), gates of layer l on h^(l-1).

    With all weights and biases of each layer drawn, and h^(l) = tanh(U^(l) c_n), three layers.
    """
    net = network(seed, 3, n, combine=combine, decay=decay)
    h = G.x
    for layer, (walks, U) in enumerate(zip(net.walks, net.mixing, strict=True)):
        W, U = walks.nodes.detach(), U.detach()
        c = [h @ W[0].T]
        for j in range(1, n):
            own, rows = h @ W[j].T, []
            for v in range(len(G.x)):
                around = torch.zeros(2, dtype=torch.float64)
                for u, to in G.edges:
                    lam = 0.7
                    if decay == "learned":
                        lam = torch.sigmoid(walks.decay_logit.detach())
                    if decay == "gated":
                        source, target = walks.gates.detach()
                        z = source @ h[u] + target @ h[v] + walks.gate_bias.detach()
                        lam = torch.sigmoid(z)
                    if to == v:
                        around = around + lam * torch.tanh(c[-1][u])
                row = own[v] * around if combine == "multiply" else own[v] + around
                rows.append(row if ends_in(G, v, j + 1) else torch.zeros_like(row))
            c.append(torch.stack(rows))
        found = net.node_states(G.x, G.edge_index, layer=layer)
        torch.testing.assert_close(found, torch.stack(c, dim=1), **CLOSE)
        h = torch.tanh(c[-1] @ U.T)
    torch.testing.assert_close(net(G.x, G.edge_index)[0], h.sum(0), **CLOSE)
