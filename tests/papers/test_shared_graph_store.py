"""Batches of a graph store equal those of PyG."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch, Data

from representer_papers.shared.graph_store import GraphStore


def graphs(has_features):
    generator = torch.Generator().manual_seed(0)
    made = []
    for nodes, edges in ((3, 4), (1, 0), (5, 9), (2, 2)):
        ends = torch.randint(nodes, (2, edges), generator=generator)
        features = torch.randint(2, (edges, 2), generator=generator).float()
        x = torch.randint(2, (nodes, 3), generator=generator).float()
        made.append(Data(x=x, edge_index=ends, edge_attr=features if has_features else None))
    return made


@pytest.mark.parametrize("has_features", [True, False])
@pytest.mark.parametrize("chosen", [[2, 0, 3], [1], [1, 1, 2], [3, 1, 0, 2]])
def test_a_batch_equals_that_of_pyg(has_features, chosen):
    made = graphs(has_features)
    store = GraphStore(GraphStore.of(made, torch.arange(4.0)).tensors())
    ours, theirs = store(chosen), Batch.from_data_list([made[i] for i in chosen])
    for name in ("x", "edge_index", "edge_attr", "batch"):
        first, second = getattr(ours, name), getattr(theirs, name)
        assert (first is None and second is None) or torch.equal(first, second), name
    assert ours.y.tolist() == chosen
    assert (len(store), store.features) == (4, 3)
