"""PyG: its check of modules, compilation, heterogeneous graphs and explanations."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch import nn as torch_nn
from torch_geometric import EdgeIndex
from torch_geometric import nn as theirs
from torch_geometric.data import Data
from torch_geometric.testing import assert_module, get_random_edge_index

from representer import nn
from representer.errors import KindError

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore:Sparse"),  # they are new in torch
]
OPTIONS: dict[str, dict[str, Any]] = {
    "WL": {"kind": nn.WLKernelNN},
    "WL, gates": {"kind": nn.WLKernelNN, "decay": "gated", "readout": "last"},
    "walks": {"kind": nn.RandomWalkKernelNN},
    "walks, sums": {"kind": nn.RandomWalkKernelNN, "combine": "add", "decay": "gated"},
    "deep": {"kind": nn.DeepGraphKernelNN, "decay": "learned"},
}


class States(torch_nn.Module):
    """The states of the nodes, as from a convolution."""

    def __init__(self, network: torch_nn.Module) -> None:
        super().__init__()
        self.network = network

    def reset_parameters(self) -> None:
        self.network.reset_parameters()

    def forward(self, x: Tensor, edge_index: Any) -> Tensor:
        found = self.network.node_states(x, edge_index)
        return found[:, -1]


def layer(name: str) -> torch_nn.Module:
    if name == "control GINConv":
        return theirs.GINConv(torch_nn.Linear(8, 16))
    if name == "control SAGEConv":
        return theirs.SAGEConv(8, 16)
    if name == "relabeling":
        return nn.Relabeling(8)
    options = dict(OPTIONS[name])
    return States(options.pop("kind")(8, 16, **options))


def units(name: str) -> int:
    return 8 if name == "relabeling" else 16


NAMES = ["relabeling", *OPTIONS, "control SAGEConv", "control GINConv"]
EACH = pytest.mark.parametrize("name", NAMES)


@EACH
@pytest.mark.parametrize("edges", [0, 1, 20])
@pytest.mark.parametrize("layout", [torch.sparse_csc, torch.sparse_coo])
def test_edges_in_any_order_and_layout(layout: torch.layout, edges: int, name: str):
    edge_index = get_random_edge_index(4, 4, edges, coalesce=True)
    found = assert_module(
        layer(name), torch.randn(4, 8), edge_index, expected_size=(4, units(name)),
        test_sparse_layouts=[layout], atol=1e-6,
    )  # fmt: skip
    assert found.isfinite().all()


@EACH
@pytest.mark.parametrize("order", [None, "row", "col"])
def test_edge_index_of_pyg(order: str | None, name: str):
    module, x = layer(name), torch.randn(4, 8)
    edge_index = get_random_edge_index(4, 4, 12, coalesce=True)
    typed = EdgeIndex(edge_index, sparse_size=(4, 4))
    if order:
        typed = typed.sort_by(order)[0]
    torch.testing.assert_close(module(x, typed), module(x, edge_index), rtol=1e-4, atol=1e-5)


@EACH
def test_compiled(name: str):
    torch._dynamo.reset()
    module, x = layer(name), torch.randn(4, 8)
    edge_index = get_random_edge_index(4, 4, 12, coalesce=True)
    compiled = torch.compile(copy.deepcopy(module), backend="aot_eager")
    torch.testing.assert_close(compiled(x, edge_index), module(x, edge_index))


RELATIONS = {
    "within a kind": [("paper", "cites", "paper"), ("author", "knows", "author")],
    "between kinds": [("author", "writes", "paper"), ("paper", "by", "author")],
}


@EACH
@pytest.mark.parametrize("relations", RELATIONS)
def test_to_hetero(relations: str, name: str):
    class Net(torch_nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = layer(name)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.first(x, edge_index).relu()

    hetero = theirs.to_hetero(Net(), (["paper", "author"], RELATIONS[relations]))
    xs = {"paper": torch.randn(5, 8), "author": torch.randn(5, 8)}
    edges = {kind: get_random_edge_index(5, 5, 9) for kind in RELATIONS[relations]}
    if relations == "between kinds" and "control" not in name:
        with pytest.raises(KindError, match="x is tuple"):
            hetero(xs, edges)
        pytest.xfail("walks and relabelings of several steps need both ends in one set of nodes")
    found = hetero(xs, edges)
    if "control" not in name:
        assert {each.shape for each in found.values()} == {(5, units(name))}
        pytest.xfail("PyG joins the relations of a kind for MessagePassing layers alone; others "
                     "return one output for each relation")  # fmt: skip
    assert {kind: each.shape for kind, each in found.items()} == dict.fromkeys(xs, (5, units(name)))


@EACH
def test_other_nodes_leave_a_component_unchanged(name: str):
    module = layer(name)
    x, edge_index = torch.randn(6, 8), torch.tensor([[0, 1], [1, 0]])
    found = module(x, edge_index)
    again = module(x[:2], edge_index)
    torch.testing.assert_close(found[:2], again)


MASKS = [
    (algorithm, mask)
    for algorithm in ("DummyExplainer", "GNNExplainer")
    for mask in ("attributes", "object", "common_attributes")
]
MASKS += [  # which PyG runs for attributes alone
    (f"CaptumExplainer-{method}", "attributes")
    for method in ("Saliency", "IntegratedGradients", "InputXGradient", "Deconvolution",
                   "GuidedBackprop")
]  # fmt: skip


class Graphs(torch_nn.Module):
    """A prediction for a graph."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.network = layer(name)
        self.last = torch_nn.Linear(units(name), 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.network(x, edge_index).sum(0, keepdim=True))


@pytest.mark.filterwarnings("ignore::UserWarning")  # of Captum, on gradients and hooks
@EACH
@pytest.mark.parametrize("edge_mask", [None, "object"])
@pytest.mark.parametrize(("algorithm", "node_mask"), MASKS)
def test_explainer(algorithm: str, node_mask: str, edge_mask: str | None, name: str):
    from torch_geometric import explain

    kind, _, method = algorithm.partition("-")
    made = getattr(explain, kind)(*([method] if method else []))
    if kind == "GNNExplainer":
        made.epochs = 2
    explainer = explain.Explainer(
        Graphs(name), made, explanation_type="model", node_mask_type=node_mask,
        edge_mask_type=edge_mask,
        model_config={"mode": "multiclass_classification", "task_level": "graph",
                      "return_type": "raw"},
    )  # fmt: skip
    x, edge_index = torch.randn(5, 8), get_random_edge_index(5, 5, 12, coalesce=True)
    found = explainer(x, edge_index)
    found.validate(raise_on_error=True)
    assert found.node_mask.isfinite().all()
    if edge_mask:
        assert found.edge_mask.shape == (edge_index.shape[1],)
        assert found.edge_mask.isfinite().all()
    if node_mask != "common_attributes":
        assert isinstance(found.get_explanation_subgraph(), Data)
