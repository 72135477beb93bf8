"""Reading of the objects of a network, and errors where they do not fit its references."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from representer.errors import ArgumentError, KindError, ShapeError
from representer.kernel_network import read_objects
from representer.kernel_network.objects import GraphBatch, TokenBatch, VectorBatch
from representer.kernels import Gaussian, RandomWalkKernel, StringKernel

LIKE = torch.empty(0, dtype=torch.float64)
STRINGS, VECTORS, WALKS = StringKernel() * StringKernel(), 2 * Gaussian(), 2 * RandomWalkKernel()


def test_sequences_are_padded_and_empty_ones_have_no_tokens():
    X = [torch.ones(3, 2).double(), torch.empty(0, 2).double(), torch.ones(1, 2).double()]
    x = read_objects(X, None, STRINGS, 2, LIKE)
    assert isinstance(x, TokenBatch)
    assert x.x.shape == (3, 3, 2)
    assert x.lengths.tolist() == [3, 0, 1]
    assert [len(item) for item in x.items] == [3, 0, 1]
    padded = torch.full((3, 5, 2), torch.nan, dtype=torch.float64)
    for row, item in zip(padded, X, strict=True):
        row[: len(item)] = item
    again = read_objects(padded, [3, 0, 1], STRINGS, 2, LIKE)
    torch.testing.assert_close(again.x[:3], x.x)
    assert not again.x[3:].any()
    assert read_objects([[], []], None, STRINGS, 2, LIKE).x.shape == (1, 2, 2)
    assert len(read_objects([], None, STRINGS, 2, LIKE)) == 0


def test_arrays_have_the_dtype_of_the_references():
    x = read_objects([np.ones((3, 2))], None, STRINGS, 2, torch.empty(0))
    assert x.x.dtype == torch.float32
    v = read_objects(np.ones((3, 2)), None, VECTORS, 2, torch.empty(0))
    assert isinstance(v, VectorBatch)
    assert v.items.dtype == torch.float32


def test_graphs_are_joined():
    data = Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0], [1]]))
    one = nx.path_graph(2)
    nx.set_node_attributes(one, [1.0, 1, 1], "x")
    for X in ([data, data], Batch.from_data_list([data, data]), [one, one]):
        x = read_objects(X, None, WALKS, 3, LIKE)
        assert isinstance(x, GraphBatch)
        assert x.batch.nodes.shape == (4, 3)
        assert [graph.x.shape for graph in x.items] == [(2, 3)] * 2


LABELS = nx.path_graph(2)
nx.set_node_attributes(LABELS, "C", "x")


@pytest.mark.parametrize(("X", "lengths", "kernel", "error", "message"), [
    ([torch.ones(3, 3).double()], None, STRINGS, ShapeError, r"expected \(…, 2\)"),
    ([torch.ones(3, 2)], None, STRINGS, KindError, r"Use X.to\(torch.float64\)"),
    (torch.ones(3, 2).double(), None, STRINGS, ShapeError, "Put a single sequence into a list"),
    (torch.ones(1, 3, 2).double(), [4], STRINGS, ArgumentError, r"lengths\[0\] is 4"),
    (torch.ones(1, 3, 2).double(), [1, 2], STRINGS, ShapeError, "one per sequence"),
    ([torch.ones(3, 2).double()], [3], STRINGS, ArgumentError, "except for a padded tensor"),
    (torch.full((1, 3, 2), torch.inf).double(), None, STRINGS, ArgumentError, "finite"),
    (["ab"], None, STRINGS, KindError, "expected a tensor, an array"),
    (torch.ones(3, 3).double(), None, VECTORS, ShapeError, r"expected \(…, 2\)"),
    ([LABELS], None, WALKS, KindError, "expected graphs with features of nodes"),
    ([Data(x=torch.ones(1, 3), edge_index=torch.zeros(2, 0).long())], None, WALKS, ShapeError,
     r"expected \(nodes, 2\)"),
])  # fmt: skip
def test_objects_that_do_not_fit_are_refused(X, lengths, kernel, error, message):
    with pytest.raises(error, match=message):
        kernel.network(2, 3, dtype=torch.float64).evaluate(X, lengths)
