"""Properties of all graph layers, over all options."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.explain import CaptumExplainer, Explainer, GNNExplainer, PGExplainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

from drawn_graphs import F64, WALK_OPTIONS, edge_features, graph
from representer.errors import ArgumentError, KindError
from representer.models.graph_regressor import GINE
from representer.nn import DeepGraphKernelNN, RandomWalkKernelNN, TreeKernelNN, WLKernelNN
from representer.ops.common import add_rows, add_rows_in_order

CASES = [
    *((RandomWalkKernelNN, options) for options in WALK_OPTIONS),
    (DeepGraphKernelNN, {"num_layers": 3, "decay": "learned", "combine": "add"}),
    (DeepGraphKernelNN, {"nonlinear": "sigmoid", "decay": "gated", "edge_dim": 2}),
    (WLKernelNN, {"depth": 3, "decay": "learned"}),
    (WLKernelNN, {"label_channels": 6, "readout": "last", "decay": "gated", "edge_dim": 2}),
    (WLKernelNN, {"share_references": False, "bias": False, "sigma": "tanh", "edge_dim": 2}),
]
NAMES = [f"{layer.__name__}-{'-'.join(map(str, o.values()))}" for layer, o in CASES]
every_layer = pytest.mark.parametrize(("kind", "options"), CASES, ids=NAMES)
few_layers = pytest.mark.parametrize(
    ("kind", "options"),
    [CASES[0], CASES[23], *CASES[25:28]],
    ids=[NAMES[0], NAMES[23], *NAMES[25:28]],
)
# Where terms are added, or shifted by an activation, a node contributes if walks end in it, which
# is determined from the graph and not from a mask.
PRODUCTS = [
    pytest.param(kind, options, id=name)
    for (kind, options), name in zip(CASES, NAMES, strict=True)
    if options.get("combine") != "add" and not options.get("nonlinear")
]
layers_of_products = pytest.mark.parametrize(("kind", "options"), PRODUCTS)


def made(kind, options, dtype: torch.dtype = F64):
    torch.manual_seed(1)
    net = kind(3, 4, order=3, dtype=dtype, **options)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return net


@every_layer
def test_a_batch_matches_its_graphs_one_by_one(kind, options):
    graphs = [graph(s, n, e) for s, n, e in ((0, 5, 9), (1, 1, 0), (2, 3, 4))]
    net, joined = made(kind, options), Batch.from_data_list(graphs)
    found = net(joined.x, joined.edge_index, edge_features(net, joined), joined.batch)
    alone = [net(G.x, G.edge_index, edge_features(net, G)) for G in graphs]
    torch.testing.assert_close(found, torch.cat(alone), rtol=1e-10, atol=1e-10)
    sized = net(joined.x, joined.edge_index, edge_features(net, joined), joined.batch, batch_size=4)
    torch.testing.assert_close(sized, torch.cat((found, torch.zeros(1, 4, dtype=F64))))


@every_layer
def test_the_states_of_the_nodes_sum_to_the_output(kind, options):
    G, net = graph(), made(kind, options)
    states = net.node_states(G.x, G.edge_index, edge_features(net, G))
    assert states.shape == (5, 3, 4)
    if kind is not DeepGraphKernelNN:  # which mixes and activates them before
        found = net(G.x, G.edge_index, edge_features(net, G))
        torch.testing.assert_close(found[0], states[:, -1].sum(0))


@every_layer
def test_every_parameter_gets_a_gradient(kind, options):
    G, net = graph(), made(kind, options)
    net(G.x, G.edge_index, edge_features(net, G)).square().sum().backward()
    silent = [name for name, p in net.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"), [pytest.param(*CASES[k], id=NAMES[k]) for k in (0, 23, 25, 26, 27)]
)
def test_it_compiles_to_one_graph(kind, options):
    torch._dynamo.reset()
    net, graphs = (
        made(kind, options, torch.float32),
        [graph(s, dtype=torch.float32) for s in (0, 1)],
    )
    joined = Batch.from_data_list(graphs)
    arguments = (joined.x, joined.edge_index, edge_features(net, joined), joined.batch, 2)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*arguments), net(*arguments))
    compiled(*arguments).sum().backward()


@pytest.mark.suite
@few_layers
def test_pyg_explainers_find_the_relevant_edges(kind, options):
    G, net = graph(dtype=torch.float32), made(kind, options, torch.float32)
    explainer = Explainer(
        net, GNNExplainer(epochs=2), explanation_type="model", edge_mask_type="object",
        node_mask_type="attributes",
        model_config={"mode": "regression", "task_level": "graph", "return_type": "raw"},
    )  # fmt: skip
    explained = explainer(G.x, G.edge_index, edge_attr=edge_features(net, G))
    assert explained.edge_mask.shape == (9,)
    assert explained.edge_mask.any()


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad:UserWarning")  # PyG's
@few_layers
def test_pg_explainer_reads_the_embeddings_of_nodes(kind, options):
    G, net = graph(dtype=torch.float32), made(kind, options, torch.float32)
    algorithm = PGExplainer(epochs=1)
    explainer = Explainer(
        net, algorithm, explanation_type="phenomenon", edge_mask_type="object",
        model_config={"mode": "regression", "task_level": "graph", "return_type": "raw"},
    )  # fmt: skip
    arguments = {
        "target": net(G.x, G.edge_index, edge_features(net, G)).detach(),
        "edge_attr": edge_features(net, G),
    }
    algorithm.train(0, net, G.x, G.edge_index, **arguments)
    mask = explainer(G.x, G.edge_index, **arguments).edge_mask
    assert mask.shape == (9,)
    assert len(mask.unique()) > 1


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:Input Tensor .* did not already require gradients")
@pytest.mark.parametrize("method", ["IntegratedGradients", "Saliency", "InputXGradient"])
@few_layers
def test_captum_attributes_outputs_to_nodes_and_edges(kind, options, method):
    class Unit(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = made(kind, options, torch.float32)
            self.edge_dim = self.layer.edge_dim

        def forward(self, x, edge_index, edge_attr):
            return self.layer(x, edge_index, edge_attr)[:, :1]

    G, net = graph(dtype=torch.float32), Unit()
    explainer = Explainer(
        net, CaptumExplainer(method), explanation_type="model", edge_mask_type="object",
        node_mask_type="attributes",
        model_config={"mode": "regression", "task_level": "graph", "return_type": "raw"},
    )  # fmt: skip
    found = explainer(G.x, G.edge_index, edge_attr=edge_features(net, G))
    if method == "IntegratedGradients":  # complete: nodes and edges of weight 0 give this output
        set_masks(net, torch.zeros(9), G.edge_index, apply_sigmoid=False)
        nothing = net(0 * G.x, G.edge_index, edge_features(net, G)).item()
        clear_masks(net)
        total = found.node_mask.sum() + found.edge_mask.sum()
        assert total.item() == pytest.approx(found.prediction.item() - nothing, rel=0.05)
    assert found.node_mask.any()
    assert found.edge_mask.any()


@layers_of_products
def test_a_masked_edge_has_no_effect(kind, options):
    G, net = graph(), made(kind, options)
    kept = G.edge_index[1] != 2
    set_masks(net, kept.double(), G.edge_index, apply_sigmoid=False)
    masked = net.node_states(G.x, G.edge_index, edge_features(net, G))
    clear_masks(net)
    left = G.edge_subgraph(kept)
    expected = net.node_states(G.x, left.edge_index, edge_features(net, left))
    torch.testing.assert_close(masked, expected, rtol=1e-10, atol=1e-12)


@few_layers
def test_autocast_reduces_the_precision_of_products_but_not_of_sums(kind, options):
    G, net = graph(dtype=torch.float32), made(kind, options, torch.float32)
    expected = net(G.x, G.edge_index, edge_features(net, G))
    with torch.autocast("cpu", torch.bfloat16):
        found = net(G.x, G.edge_index, edge_features(net, G))
    assert found.dtype == torch.float32
    largest = float(expected.detach().abs().max())
    torch.testing.assert_close(found, expected, rtol=0.1, atol=0.1 * largest)


@every_layer
def test_a_graph_without_edges_or_nodes_has_a_prediction(kind, options):
    net, none = made(kind, options), torch.zeros(2, 0, dtype=torch.int64)
    bonds = None if net.edge_dim is None else torch.zeros(0, 2, dtype=F64)
    assert not net.node_states(torch.ones(2, 3, dtype=F64), none, bonds)[:, 1:].any()
    batch = torch.zeros(0, dtype=torch.int64)
    assert net(torch.zeros(0, 3, dtype=F64), none, bonds, batch).shape == (0, 4)
    assert net(torch.zeros(0, 3, dtype=F64), none, bonds, batch, 2).tolist() == [[0] * 4] * 2


@every_layer
def test_an_edge_of_a_node_that_is_not_there_is_named(kind, options):
    net, x = made(kind, options), torch.ones(2, 3, dtype=F64)
    bonds = None if net.edge_dim is None else torch.zeros(1, 2, dtype=F64)
    for source in (-1, 2):
        with pytest.raises(
            ArgumentError, match=rf"edge_index\[0, 0\] is {source}; expected 0 to 1"
        ):
            net(x, torch.tensor([[source], [0]]), bonds)


@pytest.mark.filterwarnings("ignore:Sparse")  # they are new in torch
@few_layers
def test_edges_may_be_int32_or_a_sparse_adjacency(kind, options):
    net, x = made(kind, options), torch.randn(4, 3, dtype=F64)
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    features = torch.randn(5, 2, dtype=F64) if options.get("edge_dim") else None
    expected = net(x, edges, features)
    assert torch.equal(net(x, edges.int(), features), expected)
    adjacency = torch.sparse_coo_tensor(edges.flip(0), torch.ones(5), (4, 4)).to_sparse_csr()
    if features is None:
        torch.testing.assert_close(net(x, adjacency), expected)
    else:
        with pytest.raises(KindError, match=r"edge_index is a sparse adjacency; .* edge_dim=2"):
            net(x, adjacency, features)


@pytest.mark.parametrize("layer", [RandomWalkKernelNN, WLKernelNN])
def test_the_graphs_in_the_place_of_edge_features_are_refused(layer):
    x, edges, batch = torch.randn(4, 3), torch.tensor([[0, 2], [1, 3]]), torch.tensor([0, 0, 1, 1])
    net = layer(3, 2)
    with pytest.raises(KindError, match=r"edge_attr is .* \(4,\);.*Pass .*batch=batch"):
        net(x, edges, batch)


@pytest.mark.parametrize("made", [
    lambda: RandomWalkKernelNN(3, 2), lambda: WLKernelNN(3, 2), lambda: DeepGraphKernelNN(3, 2),
    lambda: GINE(3, 2, 1),
])  # fmt: skip
def test_features_of_edges_are_never_ignored(made):
    x, edges, batch = torch.randn(4, 3), torch.tensor([[0, 2], [1, 3]]), torch.tensor([0, 0, 1, 1])
    net = made()
    for features, width in (
        (torch.randn(2, 5), 5),
        (torch.ones(2), 1),
        (torch.ones(2, 1).int(), 1),
    ):
        with pytest.raises(KindError, match=f"no edge_dim.*with edge_dim={width}, or leave them"):
            net(x, edges, features, batch)
    assert net(x, edges, None, batch).shape == (2, 2)


@pytest.mark.parametrize(("batch", "batch_size", "error", "message"), [
    ([0, 0, 1], None, KindError, "batch is list; expected a tensor of torch.int64"),
    (torch.tensor([0.0, 0, 1]), None, KindError, "batch is torch.float32; expected a tensor"),
    (torch.tensor([-1, 0, 1]), None, ArgumentError, r"is \[-1, 1\]; expected graphs from 0"),
    (torch.tensor([0, 1, 2]), 2, ArgumentError, r"is \[0, 2\]; expected graphs from 0 to 1"),
])  # fmt: skip
@pytest.mark.parametrize("layer", [RandomWalkKernelNN, WLKernelNN, DeepGraphKernelNN])
def test_a_batch_that_names_no_graphs_is_refused(layer, batch, batch_size, error, message):
    with pytest.raises(error, match=message):
        layer(3, 4)(torch.ones(3, 3), torch.tensor([[0], [1]]), None, batch, batch_size)


@pytest.mark.parametrize(("kind", "options", "message"), [
    (RandomWalkKernelNN, {"order": 0}, "order is 0"),
    (RandomWalkKernelNN, {"decay": -1}, "decay is -1; expected a non-negative number, 'lea"),
    (RandomWalkKernelNN, {"decay": "input"}, "decay is 'input'"),
    (RandomWalkKernelNN, {"combine": "max"}, "combine is 'max'; expected 'multiply' or 'add'"),
    (RandomWalkKernelNN, {"nonlinear": "sine"}, "nonlinear is 'sine'; expected one of ident"),
    (RandomWalkKernelNN, {"nonlinear": torch.tanh}, "nonlinear is .*; expected a name"),
    (RandomWalkKernelNN, {"activation": "sine"}, "activation is 'sine'"),
    (RandomWalkKernelNN, {"edge_dim": 0}, "edge_dim is 0"),
    (WLKernelNN, {"depth": 0}, "depth is 0"),
    (WLKernelNN, {"readout": "mean"}, "readout is 'mean'; expected 'sum' or 'last'"),
    (WLKernelNN, {"sigma": "sine"}, "activation is 'sine'"),
    (WLKernelNN, {"label_channels": -1}, "label_channels is -1"),
    (DeepGraphKernelNN, {"num_layers": 0}, "num_layers is 0"),
    (DeepGraphKernelNN, {"nonlinear": "sine"}, "nonlinear is 'sine'"),
    (TreeKernelNN, {"decay": "input"}, "decay"), (TreeKernelNN, {"decay": -1.0}, "decay"),
    (TreeKernelNN, {"order": 0}, "order"), (TreeKernelNN, {"ordered": 2}, "ordered"),
    (TreeKernelNN, {"max_children": 0}, "max_children"),
])  # fmt: skip
def test_the_error_for_an_invalid_option_names_it(kind, options, message):
    with pytest.raises(ArgumentError, match=message):
        kind(3, 4, **options)


def test_rows_added_in_order_are_those_added_by_index():
    rows = torch.randn(40, 3, dtype=torch.float64, requires_grad=True)
    index = torch.randint(0, 7, (40,), dtype=torch.int32)
    sums = torch.zeros(1, 3, dtype=torch.float64).expand(7, -1)
    found = add_rows_in_order(sums, index, rows)
    torch.testing.assert_close(found, add_rows(sums, index, rows))
    (gradient,) = torch.autograd.grad(found.square().sum(), rows)
    torch.testing.assert_close(gradient, 2 * found.detach()[index.long()])
