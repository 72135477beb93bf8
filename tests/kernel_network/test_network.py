"""Networks of kernels: references, learned parameters, repetition, refusals, layers of nn."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch_geometric.data import Data

from drawn_trees import tree
from expressions import is_same
from representer.errors import ArgumentError, KindError
from representer.kernel_network import KernelNetwork
from representer.kernels import (
    CrossSpectralKernel,
    DeepGraphKernel,
    DeepStringKernel,
    Embedded,
    Gaussian,
    InversePolynomial,
    LearnedKernel,
    Linear,
    NgramKernel,
    PartialTreeKernel,
    Polynomial,
    RandomWalkKernel,
    RecurrentKernel,
    StringKernel,
    SubsetTreeKernel,
    SubtreeKernel,
    TextKernel,
    TreeKernel,
    WeisfeilerLehmanKernel,
)
from representer.nn import (
    CNN,
    RKM,
    RKMLSTM,
    DeepGraphKernelNN,
    GatedCNN,
    RandomWalkKernelNN,
    Relabeling,
    StringKernelRNN,
    TreeKernelNN,
    WLKernelNN,
)

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
F64 = {"dtype": torch.float64}
S1, S2, WALKS = StringKernel(1), StringKernel(2), RandomWalkKernel(2)
X = [0.3 * torch.randn(n, 2, generator=torch.Generator().manual_seed(n), **F64) for n in (5, 0, 3)]
GRAPH = Data(
    x=torch.randn(4, 2, generator=torch.Generator().manual_seed(1), **F64),
    edge_index=torch.tensor([[0, 1, 2, 2, 3], [1, 2, 3, 0, 2]]),
    edge_attr=torch.randn(5, 3, generator=torch.Generator().manual_seed(2), **F64),
)


def assert_is_its_kernel(net, X) -> None:
    torch.testing.assert_close(net.evaluate(X), net.kernel(X, net.reference_objects()), **CLOSE)


@pytest.mark.parametrize(
    ("kernel", "tokens"),
    [
        (StringKernel(3).cosine() + S1, 3), (DeepStringKernel((2, 3, 1)), 4),
        (DeepGraphKernel(3, 2), 5), (RandomWalkKernel(3) + RandomWalkKernel(2), 3),
        (RecurrentKernel("linear", filter_length=2) + S2, 2),
        (2 * RecurrentKernel("linear", filter_length=3, repeat=True), 3),
        (WeisfeilerLehmanKernel(DeepGraphKernel(2, 2), 1, Relabeling(2)), 3),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_references_have_the_shortest_length_whose_kernel_is_not_0(kernel, tokens):
    assert kernel.shortest_reference() == tokens
    assert kernel.network(2, 4).references().shape == (4, tokens, 2)
    if not kernel.repeats and not isinstance(kernel, WeisfeilerLehmanKernel):
        assert kernel.network(2, 4, reference=tokens + 1).references().shape == (4, tokens + 1, 2)
    if tokens > 1 and not kernel.repeats:
        with pytest.raises(ArgumentError, match=f"reference is {tokens - 1}; expected at least"):
            kernel.network(2, 4, reference=tokens - 1)


def test_no_unit_of_a_deep_network_begins_as_0():
    for kernel, data in (
        (DeepStringKernel((2, 3), 0.5, Linear()), X[:1]),
        (DeepGraphKernel(2, 2, activation="exponential"), [GRAPH]),
    ):
        net = kernel.network(2, 3, **F64)
        net.evaluate(data).sum().backward()
        assert net.evaluate(data).all()
        assert net.reference.grad.any()


def test_a_parameter_that_requires_a_gradient_is_trained():
    decay = torch.tensor(0.5, requires_grad=True, **F64)
    scale = torch.tensor(2.0, requires_grad=True, **F64)
    module = torch.nn.Linear(2, 2, **F64)
    kernels = (
        StringKernel(2, decay),
        scale * StringKernel(2, decay).cosine() + Embedded(S1, module),
        scale * RandomWalkKernel(2, decay),
        scale * DeepStringKernel((1, 2), [decay, decay], Gaussian(scale)),
    )
    for kernel in kernels:
        for fused in (True, False):
            net = kernel.network(2, 3, fused=fused, **F64)
            assert any(p is decay for p in net.parameters())
            data = [GRAPH] if kernel.objects == "graphs" else X
            net.evaluate(data).sum().backward()
            assert decay.grad is not None
            assert_is_its_kernel(net, data)
            decay.grad = None
    net = kernels[1].network(2, 3, **F64)
    assert {id(decay), id(scale), id(module.weight)} <= {id(p) for p in net.parameters()}
    before = net.evaluate(X).detach()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    net.evaluate(X).sum().backward()
    optimizer.step()
    assert float(decay.detach()) != 0.5
    assert not torch.equal(net.evaluate(X), before)
    assert_is_its_kernel(net, X)
    twin = copy.deepcopy(net)
    twin.load_state_dict(net.state_dict())
    assert_is_its_kernel(twin, X)
    torch.testing.assert_close(twin.evaluate(X), net.evaluate(X))


EDGE_WALKS = RandomWalkKernel(2, edges=True)


@pytest.mark.parametrize(("kernel", "options"), [
    (RandomWalkKernel(2, base=Gaussian() * Linear()), {}), (EDGE_WALKS, {"edge_dim": 3}),
    (EDGE_WALKS + WALKS, {"edge_dim": 3, "references": "own"}),
    (Embedded(WALKS.cosine(), Relabeling(2, **F64)), {}), (TreeKernel(2).cosine(), {}),
    (Embedded(WALKS, Relabeling(2, **F64)).cosine(), {}),
    (WeisfeilerLehmanKernel(WALKS, 1, Relabeling(2, **F64)), {}), (Gaussian(), {}),
    (S1 + S2.cosine(), {}), (Embedded(S1 * S2, torch.nn.Linear(2, 3, **F64)), {}),
])  # fmt: skip
def test_no_objects_and_empty_ones_have_values_of_every_kernel(kernel, options):
    net = kernel.network(2, 4, **options, **F64)
    none = torch.zeros(0, 2, **F64) if kernel.objects == "vectors" else []
    assert net.evaluate(none).shape == net.kernel(none, net.reference_objects()).shape == (0, 4)
    if kernel.objects == "sequences":
        assert net.evaluate(2 * [torch.zeros(0, 2, **F64)]).tolist() == [[0.0] * 4] * 2


def test_a_network_can_be_pickled():
    net = (S1 + S2.cosine()).network(2, 3, **F64)
    torch.testing.assert_close(pickle.loads(pickle.dumps(net)).evaluate(X), net.evaluate(X))


def test_a_whole_recurrent_or_WL_kernel_comes_back_repeated_and_in_a_composition_as_it_was():
    r = Relabeling(2, activation="tanh", **F64)
    for kernel, data in (
        (RecurrentKernel("linear", filter_length=2), X),
        (WeisfeilerLehmanKernel(RandomWalkKernel(2), 1, r), [GRAPH]),
        (WeisfeilerLehmanKernel(DeepGraphKernel(2, 1, combine="add"), 1, r), [GRAPH]),
    ):
        for net in (kernel.network(2, 3, **F64), kernel.network(2, 3, fused=False, **F64)):
            assert net.kernel.repeat
            assert_is_its_kernel(net, data)
        for net in (kernel.network(2, 3, reference=4, **F64), (2 * kernel).network(2, 3, **F64)):
            assert not getattr(net.kernel, "kernel", net.kernel).repeat
            assert_is_its_kernel(net, data)
        own = (kernel + kernel).network(2, 3, references="own", **F64)
        assert not own.kernel.k1.repeat
        assert_is_its_kernel(own, data)
        with pytest.raises(ArgumentError, match="so they have none"):
            (kernel + kernel).cosine().network(2, 3, references="own")
        with pytest.raises(ArgumentError, match="norm of a repeated reference"):
            kernel.repeating().cosine().network(2, 3)
    assert isinstance(own.own[0], KernelNetwork)


def test_an_unchecked_kernel_comes_back_as_it_was():
    kernel = RecurrentKernel("tanh", check_mercer=False)
    net = kernel.network(2, 3, **F64)
    assert net.kernel.get_params() == kernel.get_params() | {"repeat": True}
    assert_is_its_kernel(net, X)


def test_a_kernel_of_walks_comes_back_with_arguments_that_have_no_effect():
    r = Relabeling(2)
    for kernel in (
        RandomWalkKernel(1, nonlinear="polynomial"),
        WeisfeilerLehmanKernel(depth=1, relabel=r, repeat=True),
        WeisfeilerLehmanKernel(RandomWalkKernel(1), depth=1, relabel=r, repeat=True),
    ):
        assert is_same(kernel.network(2, 3).kernel, kernel)


def test_references_behind_an_embedding_have_its_features():
    f = StringKernelRNN(2, 5, decay=0.5, **F64)
    net = Embedded(S2, f, repeat=True).network(2, 3, **F64)
    assert net.references().shape == (3, 2, 5)
    assert_is_its_kernel(net, X)
    assert Embedded(S2, f).network(2, 3, **F64).references().shape == (3, 2, 2)
    with pytest.raises(ArgumentError, match="references is 'shared'; expected 'own'"):
        (Embedded(S2, f, repeat=True) + S2).network(2, 3, **F64)
    own = (Embedded(S2, f) + S2).network(2, 3, references="own", **F64)
    assert [r.shape for r in own.references()] == [(3, 2, 5), (3, 2, 2)]
    assert_is_its_kernel(own, X)


def test_graphs_of_a_topology_and_with_edges():
    cycle = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
    for kernel in (RandomWalkKernel(5), RandomWalkKernel(2) * DeepGraphKernel(2, 1)):
        net = kernel.network(2, 3, reference=cycle, **F64)
        assert net.references().shape == (3, 3, 2)
        assert not any(part.fused for part in net.parts)
        assert_is_its_kernel(net, [GRAPH])
    edges = RandomWalkKernel(2, 0.5, edges=True) + RandomWalkKernel(3, combine="add", edges=True)
    net = edges.network(2, 4, edge_dim=3, **F64)
    assert net.edge_references().shape == (4, 2, 3)
    assert_is_its_kernel(net, [GRAPH])
    path = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
    for kernel, options, message in (
        (RandomWalkKernel(3), {"reference": path}, "a graph with a walk of 3 nodes"),
        (edges, {}, "edge_dim is None"),
        (RandomWalkKernel().cosine(), {"edge_dim": 3}, "edges=True"),
        (S1, {"reference": path}, "a number of tokens"),
        (2 * Gaussian(), {"reference": 2}, "None for a kernel of vectors"),
        (S1 + S2, {"references": "mine"}, "'shared' or 'own'"),
        (S1, {"references": "mine"}, "'shared' or 'own'"),
        (S2 + RecurrentKernel(repeat=True), {}, "the window of"),
        (S1 + S2, {"fused": 3}, "fused is 3"),
    ):
        with pytest.raises(ArgumentError, match=message):
            kernel.network(2, 3, **options)
    with pytest.raises(TypeError, match="batch_first"):
        (S1 + S2).network(2, 3, batch_first=True)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (StringKernel(base="delta"), "tokens for equality"),
        (DeepStringKernel(base="delta") + DeepStringKernel(base="delta"), "tokens for equality"),
        (RandomWalkKernel(base="delta").cosine(), "labels of nodes"),
        (DeepGraphKernel(base="delta") ** 2, "labels of nodes"),
        (2 * WeisfeilerLehmanKernel(), "discrete relabeling"),
        (SubtreeKernel(), "counts colors"),
        (NgramKernel(), "counts tokens"),
        (TextKernel().activated(InversePolynomial()), "counts tokens"),
        (CrossSpectralKernel(sampling_rate=100.0), "features of spectra"),
        (RecurrentKernel("linear", repeat=True).activated(Gaussian()), "repeated reference"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_kernel_without_a_network_states_the_reason(kernel, reason):
    assert reason in kernel.no_network()
    with pytest.raises(ArgumentError, match=reason):
        kernel.network(2, 3)


def test_the_repr_shows_how_each_part_is_computed():
    net = (S2.cosine() + DeepStringKernel()).network(2, 3)
    lines = [line.strip() for line in repr(net).splitlines()]
    assert lines[2:4] == ["StringKernel(): fused", "DeepStringKernel(): the exact kernel"]
    assert "StringKernel(): the exact kernel" in repr(S2.network(2, 3, fused=False))
    own = (S1 + S2).network(2, 3, references="own")
    assert [part.fused for part in own.parts] == [True, True]


LAYERS = [
    StringKernelRNN(2, 3, decay=0.3, order=3, activation="tanh", **F64),
    StringKernelRNN(2, 3, decay=0.3, combine="add_exact", normalized="exact", batch_first=True,
                    activation=None, **F64),
    RKM(2, 3, q="exponential", feedback=False, filter_length=2, **F64),
]  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_a_layer_evaluates_its_kernel_before_any_activation(layer):
    references = layer.reference_objects()
    torch.testing.assert_close(torch.stack(references), layer.references())
    assert all(reference.requires_grad for reference in references)
    kernel = StringKernel(3, 0.3) if layer.__dict__.get("activation") else layer.kernel
    torch.testing.assert_close(layer.evaluate(X), kernel(X, references), **CLOSE)
    padded = torch.nn.utils.rnn.pad_sequence(X, batch_first=True)
    lengths = torch.tensor([len(x) for x in X])
    torch.testing.assert_close(layer.evaluate(padded, lengths), layer.evaluate(X))


WEIGHTED = StringKernelRNN(2, 3, decay=0.5, readout="weighted", **F64)
torch.nn.init.uniform_(WEIGHTED.readout_l0)
STATES = [
    RKMLSTM(2, 3, **F64), RKMLSTM(2, 3, output_nonlinearity="tanh", batch_first=True, **F64),
    RKMLSTM(2, 3, num_layers=2, **F64), CNN(2, 3, **F64), CNN(2, 3, num_layers=2, **F64),
    GatedCNN(2, 3, filter_length=2, **F64), GatedCNN(2, 3, output_nonlinearity="tanh", **F64),
    StringKernelRNN(2, 3, decay="state", readout="sum", **F64), WEIGHTED,
    StringKernelRNN(2, 3, num_layers=2, decay=0.5, dropout=0.5, **F64),
    StringKernelRNN(2, 3, num_layers=2, decay="input", normalized="exact", **F64),
]  # fmt: skip


@pytest.mark.parametrize("layer", STATES, ids=str)
def test_a_layer_evaluates_the_states_that_its_kernel_defines(layer):
    kernel, embedded, values = layer.kernel, X, layer.evaluate(X)
    if layer.num_layers > 1:
        embedded, _ = kernel.embedded(X)
        kernel = kernel.kernel
    if isinstance(kernel, LearnedKernel):
        expected = torch.stack([kernel.unit(i).value(embedded) for i in range(3)], dim=1)
    else:
        expected = layer.kernel(X, layer.reference_objects())
    torch.testing.assert_close(values, expected, **CLOSE)
    assert not values[1].any()


def test_graph_layers_evaluate_their_kernels():
    for net in (
        RandomWalkKernelNN(2, 3, 3, 0.5, edge_dim=3, **F64),
        RandomWalkKernelNN(2, 3, 2, combine="add", **F64),
        WLKernelNN(2, 3, 2, label_channels=0, **F64),
        WLKernelNN(2, 3, 2, readout="last", **F64),
        DeepGraphKernelNN(2, 3, num_layers=2, nonlinear="polynomial", **F64),
        DeepGraphKernelNN(2, 3, num_layers=1, nonlinear=False, **F64),
    ):
        objects = net.reference_objects()
        torch.testing.assert_close(
            net.evaluate([GRAPH, GRAPH]), net.kernel([GRAPH, GRAPH], objects), **CLOSE
        )


TREE_KERNELS = [
    TreeKernel(3, 0.5), TreeKernel(2, 0.5, ordered=True),
    TreeKernel(1, 0.4) + 2 * TreeKernel(2, 0.7, ordered=True),
    (TreeKernel(1, 0.4) * TreeKernel(2)).cosine(), TreeKernel(1, 0.5).activated(Gaussian()) ** 2,
]  # fmt: skip


@pytest.mark.parametrize("kernel", TREE_KERNELS, ids=repr)
def test_trees_have_networks_with_paths_or_trees_as_references(kernel):
    trees = [tree(n, 3 + n, d=2) for n in range(4)]
    forms = ("(a (b (c d) e) f)", ("a", ("b", ("c", "d"), "e"), "f"))
    for fused in (True, False):
        assert_is_its_kernel(kernel.network(2, 3, fused=fused, **F64), trees)
        for form in forms:
            net = kernel.network(2, 3, fused=fused, reference=form, **F64)
            assert net.references().shape == (3, 6, 2)
            assert_is_its_kernel(net, trees)


@pytest.mark.parametrize(("reference", "message"), [
    ("(a (b c)", "one tree"),
    ("(a b c d)", "a walk of 3 nodes"),
    (Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3), "a cycle"),
    (2, "at least 3 nodes"),
])  # fmt: skip
def test_references_that_are_no_trees_or_too_shallow_are_refused(reference, message):
    with pytest.raises(ArgumentError, match=message):
        TreeKernel(3, 0.5).network(2, 3, reference=reference)


@pytest.mark.parametrize("kernel", [SubsetTreeKernel(), 2 * PartialTreeKernel() + TreeKernel()])
def test_labels_of_trees_have_no_network(kernel):
    assert "not differentiable in a reference" in kernel.no_network()
    with pytest.raises(ArgumentError, match=r"TreeKernel compares features"):
        kernel.network(2, 3)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_layer_of_trees_evaluates_its_kernel(ordered):
    tree = Data(x=GRAPH.x, edge_index=torch.tensor([[3, 1, 2], [1, 0, 0]]))
    layer = TreeKernelNN(2, 3, 2, decay=0.5, ordered=ordered, **F64)
    assert_is_its_kernel(layer, [tree, tree])


def of_learned_numbers():
    """Return a composition with three numbers that are learned, and its network."""
    decay, scale, offset = (torch.tensor(v, requires_grad=True, **F64) for v in (0.5, 2.0, 1.0))
    kernel = (StringKernel(2, decay) * S1.cosine() + scale * S1).activated(Polynomial(1, offset))
    return kernel.network(2, 3, **F64)


def test_numbers_in_a_kernel_are_those_of_a_functional_call():
    network = of_learned_numbers()
    parameters = {name: 1.2 * value.detach() for name, value in network.named_parameters()}
    called = torch.func.functional_call(network, parameters, (X,))
    gradient = torch.func.grad(lambda p: torch.func.functional_call(network, p, (X,)).sum())
    assert all(value.abs().sum() > 0 for value in gradient(parameters).values())
    assert not torch.allclose(called, network(X))
    other = copy.deepcopy(network)
    other.load_state_dict(parameters, assign=True)
    torch.testing.assert_close(other(X), called)
    torch.testing.assert_close(other.kernel(X, other.reference_objects()), called, **CLOSE)
    network.load_state_dict(parameters)
    torch.testing.assert_close(network(X), called)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer", [
    RKM(2, 3, **F64), RKMLSTM(2, 3, batch_first=True, **F64), StringKernelRNN(2, 3, **F64),
])  # fmt: skip
def test_references_that_a_recurrent_layer_embeds_compile_to_one_graph(layer):
    network = (Embedded(S2, layer) + S1).network(2, 3, **F64)
    assert_is_its_kernel(network, X)
    torch._dynamo.reset()
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    x, lengths = torch.randn(3, 5, 2, **F64), torch.tensor([5, 0, 3])
    torch.testing.assert_close(compiled(x, lengths), network(x, lengths))


@pytest.mark.filterwarnings("ignore")
def test_numbers_in_a_kernel_are_parameters_of_programs():
    network, lengths = of_learned_numbers(), torch.tensor([5, 0, 3])
    x = torch.randn(3, 5, 2, **F64)
    torch._dynamo.reset()
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, lengths), network(x, lengths))
    program = torch.export.export(network, (x, lengths))
    assert program.state_dict.keys() == network.state_dict().keys()
    torch.testing.assert_close(program.module()(x, lengths), network(x, lengths))


def test_a_constant_is_added_by_an_activation():
    with pytest.raises(KindError, match=r"activated\(Polynomial\(1, 0.5\)\) adds a constant"):
        S2 + 0.5
    net = S2.activated(Polynomial(1, 0.5)).network(2, 3, **F64)
    torch.testing.assert_close(net.kernel(X), S2(X) + 0.5)
    assert_is_its_kernel(net, X)
