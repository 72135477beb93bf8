"""Networks on acyclic graphs of neurons: equal to (1) node by node, and to perceptrons."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from torch import nn

from representer.errors import ArgumentError, ShapeError
from representer.nn import KernelActivation, KernelDAG

EDGES = [("x", "a"), ("y", "b"), ("a", "b"), ("x", "c"), ("b", "c"), ("constant", "c"), ("y", "d")]


def node_by_node(dag: KernelDAG, x: torch.Tensor) -> torch.Tensor:
    """x_i = f_i(b_i + sum_j w_ij x_j), each node on its own."""
    values = dict(zip(dag.inputs, x.unbind(-1), strict=True))
    weights = dict(zip(dag.edges, dag.weight, strict=True))
    for level, f in zip(dag.levels, dag.activations, strict=True):
        names = dag.nodes[level.nodes]
        for k, node in enumerate(names):
            a = dag.bias[dag.nodes.index(node)].expand(x.shape[:-1])
            for (parent, child), weight in weights.items():
                a = a + weight * values[parent] if child == node else a
            terms = f.coefficients[k] * (a[..., None] - f.centers[k]).abs()
            values[node] = terms.sum(-1)
    return torch.stack([values[node] for node in dag.outputs], dim=-1)


def test_every_node_is_its_function_of_the_weighted_sum_of_its_parents():
    torch.manual_seed(0)
    dag = KernelDAG(EDGES, ["x", "y"], ["c", "d", "x", "c"], 5, dtype=torch.float64)
    assert dag.nodes == ("a", "constant", "d", "b", "c")
    assert sorted(dag.edges) == sorted(EDGES)
    x = torch.randn(3, 4, 2, dtype=torch.float64, requires_grad=True)
    output = dag(x)
    assert output.shape == (3, 4, 4)
    torch.testing.assert_close(output, node_by_node(dag, x), rtol=1e-12, atol=1e-12)
    parameters = [x, *dag.parameters()]
    found = torch.autograd.grad(output.sum(), parameters)
    expected = torch.autograd.grad(node_by_node(dag, x).sum(), parameters)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(dag(x[0, 0]), output[0, 0])


def test_a_layered_complete_graph_is_a_multilayer_perceptron():
    layers = [range(3), range(10, 15), range(20, 22)]
    edges = [edge for pair in pairwise(layers) for edge in product(*pair)]
    dag = KernelDAG(edges, layers[0], layers[-1], linear_term=True, dtype=torch.float64)
    modules = []
    for level, f in zip(dag.levels, dag.activations, strict=True):
        weight = dag.weight[level.edges].detach().unflatten(0, (f.num_features, -1))
        linear = nn.Linear(weight.shape[1], len(weight), dtype=torch.float64)
        linear.load_state_dict({"weight": weight, "bias": dag.bias[level.nodes].detach()})
        modules += [linear, f]
    x = torch.randn(7, 3, dtype=torch.float64)
    torch.testing.assert_close(dag(x), nn.Sequential(*modules)(x))
    assert all(isinstance(f, KernelActivation) and f.line is not None for f in dag.activations)


def test_a_graph_with_few_edges_has_the_same_values_by_a_sparse_product():
    torch.manual_seed(0)
    pairs = [(j, 100 + i) for i in range(40) for j in range(20) if (3 * i + j) % 11 == 0]
    dag = KernelDAG(pairs, range(20), range(100, 140), 4, dtype=torch.float64)
    x = torch.randn(3, 20, dtype=torch.float64)
    torch.testing.assert_close(dag(x), node_by_node(dag, x))
    dag(x).sum().backward()
    assert (dag.weight.grad != 0).all()


def test_a_node_without_parents_is_a_constant():
    dag = KernelDAG([("c", "y")], ["x"], ["c", "y"], dtype=torch.float64)
    output = dag(torch.tensor([[1.0], [2.0]], dtype=torch.float64))
    assert torch.equal(output[0], output[1])
    f = dag.activations[0]
    torch.testing.assert_close(output[0, :1], f(dag.bias[:1]))


def test_a_chain_of_many_nodes():
    dag = KernelDAG([(k, k + 1) for k in range(300)], [0], [300], 2)
    assert dag(torch.randn(2, 1)).shape == (2, 1)
    assert len(dag.levels) == 300


def test_it_is_drawn_as_linear_layers_are_and_copied_by_its_state():
    dag = KernelDAG([(j, "y") for j in range(100)], range(100), ["y"])
    assert 0.08 < float(dag.weight.detach().abs().max()) <= 0.1
    twin = KernelDAG([(j, "y") for j in range(100)], range(100), ["y"])
    twin.load_state_dict(dag.state_dict())
    x = torch.randn(2, 100)
    assert torch.equal(twin(x), dag(x))
    torch.manual_seed(1)
    dag.reset_parameters()
    assert not torch.equal(twin.weight, dag.weight)
    assert "100 inputs, 1 nodes, 100 edges, 1 outputs" in repr(dag)


@pytest.mark.parametrize(
    ("edges", "inputs", "outputs", "message"),
    [
        ([("x", "a"), ("a", "b"), ("b", "a")], ["x"], ["b"], "a → b → a|b → a → b"),
        ([("a", "a")], ["x"], ["a"], "a → a"),
        ([("a", "x")], ["x"], ["a"], "expected no edge into an input"),
        ([("x", "a"), ("x", "a")], ["x"], ["a"], "expected each edge once"),
        ([("x", "a")], ["x"], ["b"], "outputs is 'b'; expected nodes of the edges or inputs"),
        ([("x", "a")], ["x"], [], "one or more nodes"),
        ([("x", "a")], [], ["a"], "one or more nodes, each once"),
        ([("x", "a")], ["x", "x"], ["a"], "one or more nodes, each once"),
        ([("x", "a", 1)], ["x"], ["a"], "pairs of nodes"),
    ],
)
def test_a_graph_that_is_none_is_refused(edges, inputs, outputs, message):
    with pytest.raises(ArgumentError, match=message):
        KernelDAG(edges, inputs, outputs)


def test_a_wrong_number_of_features_is_refused():
    with pytest.raises(ShapeError, match="2 features in the last dimension"):
        KernelDAG([("x", "a")], ["x", "y"], ["a"])(torch.zeros(4, 3))
