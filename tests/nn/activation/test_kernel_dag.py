"""Networks on acyclic graphs of neurons: equal to (1) node by node, and to perceptrons."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from scipy.interpolate import make_smoothing_spline
from torch import nn

from representer.errors import ArgumentError, ShapeError
from representer.nn import KernelActivation, KernelDAG, activation_penalty
from representer.nn.activation.compaction import expansion

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


@pytest.mark.parametrize(("edges", "inputs", "outputs", "message"), [
    ([("x", "a"), ("a", "b"), ("b", "a")], ["x"], ["b"], "a → b → a|b → a → b"),
    ([("a", "a")], ["x"], ["a"], "a → a"),
    ([("a", "x")], ["x"], ["a"], "expected no edge into an input"),
    ([("x", "a"), ("x", "a")], ["x"], ["a"], "expected each edge once"),
    ([("x", "a")], ["x"], ["b"], "outputs is 'b'; expected nodes of the edges or inputs"),
    ([("x", "a")], ["x"], [], "one or more nodes"),
    ([("x", "a")], [], ["a"], "one or more nodes, each once"),
    ([("x", "a")], ["x", "x"], ["a"], "one or more nodes, each once"),
    ([("x", "a", 1)], ["x"], ["a"], "pairs of nodes"),
])  # fmt: skip
def test_a_graph_that_is_none_is_refused(edges, inputs, outputs, message):
    with pytest.raises(ArgumentError, match=message):
        KernelDAG(edges, inputs, outputs)


def test_a_wrong_number_of_features_is_refused():
    with pytest.raises(ShapeError, match="2 features in the last dimension"):
        KernelDAG([("x", "a")], ["x", "y"], ["a"])(torch.zeros(4, 3))


# Penalties on smoothness and expansions over a training set: numbers, splines, errors.


NUMBERS = {  # 2 × the penalty of c = (-1, 0, 2), chi = (2, -3, 2), theta = 1/2, by two limits
    "abs": (27.25, 12.375), "relu": (9.25, 3.375), "cubic": (2076.0, 1255.5),
    "gaussian": (8.186480656915, 8.186480656915),
}  # fmt: skip
A, Y = [-1.0, 0.0, 1.5, 2.0], [1.0, -1.0, 2.0, 0.0]
FITTED = {  # by enumeration: mu, chi, line, f(a) and f(0.75)
    "abs": (0.5, [-0.396226415094, 0.811320754717, -0.943396226415, 0.528301886792],
            [0, 0.566037735849],
            [0.603773584906, -0.188679245283, 1.056603773585, 0.528301886792, 0.433962264151]),
    "relu": (0.5, [-0.792452830188, 1.622641509434, -1.886792452830, 1.056603773585],
             [0, 0.603773584906],
             [0.603773584906, -0.188679245283, 1.056603773585, 0.528301886792, 0.433962264151]),
    "cubic": (0.1, [0.257157899000, -0.607864577006, 0.888510914024, -0.537804236018],
              [-1.161017292350, 0.775989146722],
              [0.691410521200, -0.270562507593, 0.933786903171, 0.645365083222, 0.351430567367]),
    "gaussian": (0.1, [2.833021490325, -3.901692905670, 6.999607208446, -5.164151811091], None,
                 [0.716697850968, -0.609830709433, 1.300039279155, 0.516415181109,
                  0.586791280170]),
}  # fmt: skip


def close(tensor, expected):
    np.testing.assert_allclose(tensor.detach().numpy(), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("green", NUMBERS)
def test_the_penalty_has_the_values_of_the_closed_forms(green):
    for limits, value in zip([(-2.0, 3.0), (-0.5, 1.0)], NUMBERS[green], strict=True):
        f = KernelActivation(2, 3, green, limits, "zeros", linear_term=True, dtype=torch.float64)
        with torch.no_grad():
            f.centers.copy_(torch.tensor([[2.0, -1, 0], [-1, 0, 2]]))
            f.coefficients.copy_(torch.tensor([[2.0, 2, -3], [2, -3, 2]]))
            f.line[:, 0] = 0.5
        assert f.penalty("smoothness").item() == pytest.approx(value, abs=1e-11)  # two halves
        network = nn.Sequential(f, nn.ReLU(), nn.Linear(2, 2), f)
        assert torch.equal(activation_penalty(network, "smoothness"), f.penalty("smoothness"))


@pytest.mark.parametrize("green", NUMBERS)
def test_the_gradient_of_the_penalty_is_exact(green):
    f = KernelActivation(2, 4, green, (-1.0, 1.5), linear_term=True, dtype=torch.float64)

    def penalty(*tensors):
        state = dict(zip(("centers", "coefficients", "line"), tensors, strict=True))
        return torch.func.functional_call(_Penalty(f), {f"f.{k}": v for k, v in state.items()}, ())

    assert torch.autograd.gradcheck(penalty, (f.centers, f.coefficients, f.line))


class _Penalty(nn.Module):
    def __init__(self, f: KernelActivation) -> None:
        super().__init__()
        self.f = f

    def forward(self) -> torch.Tensor:
        return self.f.penalty("smoothness")


@pytest.mark.parametrize("green", FITTED)
def test_the_expansion_has_the_values_computed_by_enumeration(green):
    smoothness, chi, line, outputs = FITTED[green]
    f = KernelActivation.from_data(A, Y, smoothness=smoothness, green=green)
    close(f.coefficients[0], chi)
    assert (f.line is None) == (line is None)
    if line is not None:
        close(f.line[0], line)
    close(f(torch.tensor([*A, 0.75], dtype=torch.float64)[:, None])[:, 0], outputs)


def test_the_cubic_expansion_is_the_smoothing_spline_between_the_data():
    rng = np.random.default_rng(0)
    a, y, w = np.sort(rng.normal(size=9)), rng.normal(size=9), rng.uniform(0.5, 2, 9)
    f = KernelActivation.from_data(a, y, smoothness=0.3, weights=w, green="cubic")
    spline = make_smoothing_spline(a, y, w, lam=0.3)
    points = np.linspace(a[0], a[-1], 40)
    close(f(torch.from_numpy(points)[:, None])[:, 0], spline(points))


@pytest.mark.parametrize("green", ["abs", "relu", "cubic"])
def test_f_continues_as_a_free_end_beyond_the_data(green):
    f = KernelActivation.from_data(A, Y, smoothness=0.2, green=green)
    a = torch.tensor([-30.0, -20, -10, 10, 20, 30], dtype=torch.float64)
    left, right = f(a[:, None])[:, 0].detach().chunk(2)
    bend = 1 if green == "cubic" else 0  # a line, or a constant
    for outside in (left, right):
        assert outside.diff(n=1 + bend).abs().max() < 1e-9 * 10 ** (3 * bend)


def test_each_feature_and_normalized_inputs():
    a = 3 + 2 * torch.randn(12, 2, dtype=torch.float64)
    y = torch.randn(12, 2, dtype=torch.float64)
    f = KernelActivation.from_data(a, y, smoothness=0.1, normalize=True).eval()
    low, high = f.centers.detach().aminmax()
    assert f.limits[0] <= low <= high <= f.limits[1]
    assert (f.num_features, f.num_centers) == (2, 12)
    for i in range(2):
        scaled = (a[:, i] - a[:, i].mean()) / (a[:, i].var(correction=0) + 1e-5).sqrt()
        one = KernelActivation.from_data(scaled, y[:, i], smoothness=0.1)
        torch.testing.assert_close(f(a)[:, i], one(scaled[:, None])[:, 0])
    in_evaluation = f(a)  # before training mode updates the statistics
    torch.testing.assert_close(f.train()(a), in_evaluation)


def test_the_dtype_is_that_of_the_inputs():
    a = torch.randn(5)
    assert KernelActivation.from_data(a, a, smoothness=1.0).centers.dtype == torch.float32
    f = KernelActivation.from_data(a, a, smoothness=1.0, dtype=torch.float64)
    assert f.coefficients.dtype == torch.float64


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"smoothness": 0}, ArgumentError, "smoothness is 0; expected a positive number"),
    ({"y": [1.0]}, ShapeError, "the shape of a"),
    ({"a": [[[1.0]]]}, ShapeError, r"\(N,\) or \(N, F\)"),
    ({"a": []}, ShapeError, r"\(N,\) or \(N, F\)"),
    ({"a": [0.0, float("nan")], "y": [0.0, 1]}, ArgumentError, "finite numbers"),
    ({"weights": [1.0, 1, 1, 0]}, ArgumentError, "finite and positive"),
    ({"green": torch.cos}, ArgumentError, "whose operator P is known"),
])  # fmt: skip
def test_invalid_data_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        KernelActivation.from_data(**{"a": A, "y": Y, "smoothness": 1.0, **arguments})


def test_a_penalty_without_a_known_operator_is_refused():
    with pytest.raises(ArgumentError, match="whose operator P is known"):
        KernelActivation(1, green=torch.cos).penalty("smoothness")
    with pytest.raises(ArgumentError, match="norm is 'l2'; expected 'l1' or 'smoothness'"):
        KernelActivation(1).penalty("l2")
    rows = torch.zeros(1, 2, dtype=torch.float64)
    with pytest.raises(ArgumentError, match="green"):
        expansion(rows, rows, rows, 1.0, torch.cos, 1.0)
