"""Exact masks of nodes and edges in PyG's ``Explainer``."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.explain import Explainer

from representer.explain.walk_explainer import WalkExplainer
from representer.nn import RandomWalkKernelNN, WLKernelNN

EDGES = torch.tensor([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 2, 1]])


def explain(net, x, edge_attr=None, **algorithm):
    explainer = Explainer(
        net, WalkExplainer(**algorithm), explanation_type="model", node_mask_type="object",
        edge_mask_type="object",
        model_config={"mode": "regression", "task_level": "graph", "return_type": "raw"},
    )  # fmt: skip
    return explainer(x, EDGES, edge_attr=edge_attr)


@pytest.mark.parametrize("kind", [RandomWalkKernelNN, WLKernelNN])
def test_both_masks_sum_to_the_output(kind):
    net = kind(3, 2, order=2, edge_dim=2).double()
    x, edge_attr = torch.randn(5, 3).double(), torch.randn(6, 2).double()
    found = explain(net, x, edge_attr)
    output = net(x, EDGES, edge_attr).sum().detach()
    torch.testing.assert_close(found.node_mask.sum(), output)
    torch.testing.assert_close(found.edge_mask.sum(), output)
    assert found.node_mask[4] == 0  # no walk has this node
    one = explain(net, x, edge_attr, weights=torch.tensor([0.0, 1.0]).double())
    torch.testing.assert_close(one.node_mask.sum(), net(x, EDGES, edge_attr)[0, 1].detach())


def test_an_edge_of_no_contribution_has_the_mask_0():
    net, x = RandomWalkKernelNN(3, 1, order=2).double(), torch.randn(5, 3).double()
    x[0] = 0  # products with this node are 0
    found = explain(net, x)
    assert (found.edge_mask == 0).tolist() == (EDGES == 0).any(0).tolist()
    with pytest.raises(ValueError, match="does not support the given explanation settings"):
        Explainer(
            net, WalkExplainer(), explanation_type="model", node_mask_type="attributes",
            model_config={"mode": "regression", "task_level": "graph", "return_type": "raw"},
        )  # fmt: skip
