"""Reading of graphs, and errors for invalid ones."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset

from representer.errors import ArgumentError, KindError, ShapeError
from representer.kernels import GramTransformer, RandomWalkKernel, WeisfeilerLehmanKernel
from representer.kernels.graphs import read_graphs

NONE = torch.zeros(2, 0, dtype=torch.int64)


def labeled(*words: str) -> nx.Graph:
    graph = nx.path_graph(len(words))
    nx.set_node_attributes(graph, dict(enumerate(words)), "x")
    return graph


PARTLY = nx.path_graph(2)
PARTLY.nodes[0]["x"] = 1.0
UNEQUAL = labeled("a", "b")
nx.set_node_attributes(UNEQUAL, {0: [1.0], 1: [1.0, 2.0]}, "x")


def test_all_nodes_of_a_networkx_graph_without_features_have_the_same_one():
    (item,) = read_graphs([nx.path_graph(3)]).items
    assert item.nodes.tolist() == [[1.0]] * 3
    walks = RandomWalkKernel(order=1, decay=1.0)([nx.path_graph(3), nx.cycle_graph(4)])
    assert walks.tolist() == [[9, 12], [12, 16]]  # pairs of nodes


def test_a_batch_is_the_list_of_its_graphs():
    graphs = [
        Data(x=torch.randn(n, 2), edge_index=torch.tensor([[0], [n - 1]], dtype=torch.int32))
        for n in (2, 3)
    ]
    kernel = RandomWalkKernel()
    assert torch.equal(kernel(Batch.from_data_list(graphs)), kernel(graphs))
    assert torch.equal(kernel.diag(Batch.from_data_list(graphs)), kernel.diag(graphs))


def test_a_dataset_and_a_batch_are_transformed_as_the_list_of_their_graphs():
    graphs = [Data(x=torch.randn(n, 2), edge_index=torch.tensor([[0], [n - 1]])) for n in (2, 3)]
    dataset, kernel = InMemoryDataset(), RandomWalkKernel()
    dataset.data, dataset.slices = InMemoryDataset.collate(graphs)
    assert hasattr(dataset, "edge_index")  # of all graphs, as of a single one
    assert torch.equal(kernel(dataset), kernel(graphs))
    expected = kernel(graphs).numpy()
    with pytest.raises(KindError, match=r"X\[0\] is a batch of 2 graphs; .* loader.dataset"):
        kernel([Batch.from_data_list(graphs)])
    for given in (dataset, Batch.from_data_list(graphs)):
        np.testing.assert_array_equal(GramTransformer(kernel).fit_transform(given), expected)


@pytest.mark.parametrize("kernel", [RandomWalkKernel(), WeisfeilerLehmanKernel()], ids=repr)
def test_no_graphs_have_no_kernel_values(kernel):
    data = [Data(x=torch.ones(2, 1), edge_index=NONE)]
    for graphs, kind in ((data, torch.Tensor), ([nx.path_graph(2)], np.ndarray)):
        for found, shape in ((kernel([], graphs), (0, 1)), (kernel(graphs, []), (1, 0))):
            assert isinstance(found, kind)
            assert found.shape == shape
    assert kernel([]).shape == (0, 0)
    assert kernel.diag([]).shape == (0,)
    assert (kernel.cosine() + kernel)([]).shape == (0, 0)


@pytest.mark.filterwarnings("ignore:Sparse")  # they are new in torch
def test_a_sparse_adjacency_has_a_row_for_each_target():
    x, edges = torch.randn(3, 2), torch.tensor([[0, 1, 2, 0], [1, 2, 0, 2]])
    dense = Data(x=x, edge_index=edges)
    adjacency = torch.sparse_coo_tensor(edges.flip(0), torch.ones(4), (3, 3))
    for sparse in (adjacency, adjacency.to_sparse_csr(), adjacency.to_sparse_csc()):
        kernel = RandomWalkKernel(order=2)([dense, Data(x=x, adj_t=sparse)])
        torch.testing.assert_close(kernel, kernel[0, 0].expand(2, 2))
    with pytest.raises(ShapeError, match=r"adjacency has shape \(3, 3\); expected \(2, 2\)"):
        read_graphs([Data(x=x[:2], adj_t=adjacency)])


def test_undirected_networkx_edges_are_in_both_directions_and_loops_once():
    graph = labeled("a", "b")
    graph.add_edge(1, 1)
    (item,) = read_graphs([graph]).items
    assert item.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 1]]
    assert item.nodes == ["a", "b"]
    assert item.edges is None
    (directed,) = read_graphs([nx.DiGraph(labeled("a", "b"))]).items
    assert directed.edge_index.shape == (2, 2)
    one_way = nx.DiGraph([("v", "u")])
    nx.set_node_attributes(one_way, {"u": [1, 2], "v": [3, 4]}, "x")
    (item,) = read_graphs([one_way]).items
    assert (item.nodes.tolist(), item.edge_index.tolist()) == ([[3, 4], [1, 2]], [[0], [1]])


def test_parallel_edges_of_a_multigraph_are_kept_with_their_features():
    graph = nx.MultiDiGraph()
    graph.add_nodes_from([(0, {"x": 1.0}), (1, {"x": 2})])
    graph.add_edges_from([(0, 1, {"edge_attr": 3.0}), (0, 1, {"edge_attr": 4.0})])
    (item,) = read_graphs([graph]).items
    assert item.edge_index.tolist() == [[0, 0], [1, 1]]
    assert item.edges.tolist() == [[3.0], [4.0]]


def test_data_is_converted_to_float64_and_scalar_features_are_accepted():
    (item,) = read_graphs([Data(x=torch.tensor([1, 2]), edge_index=NONE)]).items
    assert item.nodes.tolist() == [[1.0], [2.0]]
    assert item.nodes.dtype == torch.float64


@pytest.mark.parametrize(("X", "error", "message"), [
    ("CCO", KindError, "X is str; expected a list of graphs, .* Put a single"),
    (Data(), KindError, "X is Data; expected a list of graphs"),
    (nx.Graph(), KindError, "X is Graph; .* Put a single graph into a list"),
    (3, KindError, "X is int; expected a list of graphs"),
    ([np.eye(2)], KindError, r"X\[0\] is ndarray; expected a PyG Data or a networkx"),
    ([Data(edge_index=NONE)], KindError, r"X\[0\].x is None; .* x = torch.ones"),
    (
        [Data(x=torch.ones(2, 1), edge_index=NONE.to("meta"))],
        KindError,
        r"X\[0\].x is on cpu; expected on meta, as edge_index. Use X\[0\].x.to\('meta'\)",
    ),
    ([Data(x=torch.ones(2, 1), edge_index=NONE[0])], ShapeError, r"edge_index has shape"),
    (
        [Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 2]]))],
        ArgumentError,
        r"X\[0\].edge_index\[1, 1\] is 2; expected 0 to 1, the nodes",
    ),
    (
        [Data(x=torch.ones(2, 1), edge_index=NONE, edge_attr=torch.ones(3, 1))],
        ShapeError,
        r"edge_attr has shape \(3, 1\); expected \(0, features\)",
    ),
    (
        [Data(x=torch.tensor([[1.0], [float("nan")]]), edge_index=NONE)],
        ArgumentError,
        r"X\[0\].x\[1, 0\] is nan; expected a finite number",
    ),
    ([Data(x=torch.ones(1, 1, 1), edge_index=NONE)], ShapeError, r"\(nodes, features\)"),
    (
        [Data(x=torch.ones(2, 1, dtype=torch.complex64), edge_index=NONE)],
        KindError,
        r"X\[0\]\.x is torch\.complex64; expected real numbers",
    ),
    ([UNEQUAL], KindError, r"X\[0\].x .* numbers, equally many for all nodes"),
    ([PARTLY], KindError, r"X\[0\].nodes\[1\] is without 'x'; .* graph.nodes\[1\]"),
    (["CC"], KindError, r"X\[0\] is str; .* Read a SMILES with .*molecules.read_smiles"),
])  # fmt: skip
def test_invalid_graphs_are_rejected(X, error, message):
    with pytest.raises(error, match=message):
        read_graphs(X)


def test_graphs_that_cannot_be_compared_are_rejected():
    wide = Data(x=torch.ones(2, 3), edge_index=NONE)
    narrow = Data(x=torch.ones(2, 2), edge_index=NONE)
    with pytest.raises(ShapeError, match=r"Y\[0\].x has shape \(2, 2\); expected \(2, 3\)"):
        RandomWalkKernel()([wide], [narrow])
    with pytest.raises(KindError, match=r"X\[1\].x is numbers; expected labels"):
        RandomWalkKernel()([labeled("a"), wide])
    one_edge = Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises(KindError, match=r"X\[0\].edge_attr is None; .* or use edges=False"):
        RandomWalkKernel(edges=True)([one_edge])


def test_numeric_labels_are_compared_by_equality():
    words = Data(x=torch.tensor([[2.0, 1.0], [3.0, 1.0], [2.0, 1.0]]), edge_index=NONE)
    letters = Data(x=torch.tensor([5, 5, 7]), edge_index=NONE)
    assert RandomWalkKernel(1, base="delta")([words]).tolist() == [[5]]
    assert RandomWalkKernel(1, base="delta")([letters]).tolist() == [[5]]
    assert RandomWalkKernel(1, base="delta")([letters], [words]).tolist() == [[0]]


def same(first: object, second: object) -> bool:
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    return first == second


def tensors(n: int, edges: bool) -> Data:
    attributes = torch.rand(n - 1, 3) if edges else None
    ends = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    return Data(x=torch.rand(n, 2), edge_index=ends, edge_attr=attributes)


LISTS = {
    "numbers": [tensors(2, True), tensors(5, True), tensors(1, True)],
    "no edges' features": [tensors(2, False), tensors(4, False)],
    "some edges' features": [tensors(2, True), tensors(4, False)],
    "labels": [labeled("a", "b"), labeled("c")],
    "both": [labeled("a", "b"), tensors(3, False)],
    "none": [],
}


@pytest.mark.parametrize("graphs", LISTS.values(), ids=LISTS)
def test_graphs_come_back_from_a_pickle_unchanged(graphs: list[object]):
    items = read_graphs(graphs).items
    again = pickle.loads(pickle.dumps(items))
    assert type(again) is type(items)
    assert len(again) == len(items)
    for left, right in zip(items, again, strict=True):
        assert same(left.nodes, right.nodes)
        assert same(left.edges, right.edges)
        assert same(left.edge_index, right.edge_index)


def test_a_pickled_graph_keeps_its_gradients_flag():
    graph = Data(x=torch.rand(2, 2, requires_grad=True), edge_index=NONE)
    (again,) = pickle.loads(pickle.dumps(read_graphs([graph]).items[:1]))
    assert isinstance(again.nodes, torch.Tensor)
    assert again.nodes.requires_grad


def test_many_graphs_are_pickled_as_a_few_arrays():
    items = read_graphs([tensors(3, True) for _ in range(500)]).items
    one_by_one = sum(len(pickle.dumps(graph)) for graph in items)
    assert len(pickle.dumps(items)) < one_by_one / 3
