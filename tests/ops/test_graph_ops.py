"""Sums over edges, rounds of walks and scans of trees, beyond the generated tests: one table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from drawn_trees import parents_of
from looped import looped
from ops.samples import tree_scan as trees
from ops.samples import walk_aggregate as sums
from ops.samples import walk_rounds as walks
from representer import functional
from representer.errors import ArgumentError, BackendError, KindError, ShapeError
from representer.ops import OPS, core, tree_scan, walk_aggregate, walk_rounds

from .cases import differentiable, each_backend
from .trials import threads

F64 = torch.float64
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
ALL = "shift factor gate edge"
N, E, K, H = sums.SIZES["5x9x3x17"]
ROUNDS = walks.SIZES["5x9x3x4x17x2"]
d = ROUNDS[3]
NEEDS_CORE = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)


EVERY = each_backend("walk_aggregate", "walk_rounds", "tree_scan")


def operands(name: str, **changes: Any) -> dict[str, Any]:
    """Return fitting operands of an operator with everything that it takes, but for changes."""
    made = {
        "walk_aggregate": lambda: sums.tensors((N, E, K, H), ALL, F64) | {"activation": "tanh"},
        "walk_rounds": lambda: (
            walks.tensors(ROUNDS, True, F64) | {"depth": 3, "activation": "tanh"}
        ),
        "tree_scan": lambda: trees.tensors(trees.SIZES["9x2x3x5"], "gate state factor", F64),
    }
    return made[name]() | changes


def results(name: str, given: dict[str, Any], backend: str | None = None) -> tuple[Tensor, ...]:
    """Return the value and all gradients, by the definition if no backend is named."""
    marked = [given[key] for key in differentiable(name) if given.get(key) is not None]
    for tensor in marked:
        tensor.requires_grad_()
    op = OPS[name]
    y = op.definition(**given) if backend is None else op.function(**given, backend=backend)
    return y, *torch.autograd.grad(y, marked, y.detach().cos(), materialize_grads=True)


def assert_defined(name: str, given: dict[str, Any], backend: str, **close: float) -> None:
    found = results(name, given, backend)
    torch.testing.assert_close(found, results(name, given), **CLOSE | close)


@settings(deadline=None, max_examples=13)
@given(
    nodes=st.integers(1, 6), edges=st.integers(0, 12), features=st.integers(0, 4),
    units=st.integers(1, 3), seed=st.integers(0, 2**16),
    parts=st.lists(st.sampled_from(["shift", "factor", "gate"]), unique=True),
)  # fmt: skip
def test_the_sum_matches_a_loop_over_edges(nodes, edges, features, units, seed, parts):
    torch.manual_seed(seed)
    given = sums.tensors((nodes, edges, features, units), " ".join([*parts, "edge"]), F64)
    given["edge_index"] = torch.randint(0, nodes, (2, edges))
    if "gate" not in parts:
        given.pop("edge_gate")
    given["activation"] = "tanh" if "shift" in parts else "identity"
    expected = functional.walk_aggregate_definition(**given)
    torch.testing.assert_close(walk_aggregate(**given), expected, rtol=1e-10, atol=1e-12)


def test_two_rounds_match_the_sums_written_out():
    """y[v] = sum over both rounds of p_2[v] o sum_e s sigma(..) o p_1[u] o F a."""
    given = operands("walk_rounds", depth=2, scale=10.0)
    h, (source, target), a = given["labels"], given["edge_index"], given["edge_attr"]
    V, U1, W1, W2, S, T = given["weight"].split([d, d, H, H, H, H])
    b, own, b1, b2, bs, bt = given["bias"].split([d, d, H, H, H, H])
    expected = torch.zeros(N, H, dtype=F64)
    for _ in range(2):
        sums, told = torch.zeros(N, H, dtype=F64), torch.zeros(N, d, dtype=F64)
        for u, v, a_e in zip(source.tolist(), target.tolist(), a, strict=True):
            z = S @ h[u] + bs + T @ h[v] + bt + given["edge_gate"] @ a_e
            sums[v] += 10 * torch.sigmoid(z) * (W1 @ h[u] + b1) * (given["factor"][0] @ a_e)
            told[v] += torch.tanh(V @ h[u] + b + given["shift"] @ a_e)
        expected += (h @ W2.T + b2) * sums
        h = torch.tanh(h @ U1.T + own + told @ given["neighbors"].T)
    torch.testing.assert_close(walk_rounds(**given), expected, rtol=1e-10, atol=1e-12)


def of_activation(name: str, activation: str) -> Iterator[dict[str, Any]]:
    """Yield operands; exponentials and poles need small ones."""
    if name == "walk_aggregate":
        yield operands(name, activation=activation, scale=10.0)
    for gated in (True, False) if name == "walk_rounds" else ():
        drawn = walks.tensors(ROUNDS, gated, F64)
        given = {n: x * 0.3 if x.is_floating_point() else x for n, x in drawn.items()}
        yield given | {"depth": 3, "activation": activation}
    orders = ((1, "gate state"), (2, "gate state factor"))  # of trees with many levels
    for order, parts in orders if name == "tree_scan" else ():
        drawn = trees.tensors((30, 1, order, 5), parts, F64)
        given = {n: x * 0.4 if x.is_floating_point() else x for n, x in drawn.items()}
        yield given | {"activation": activation, "scale": 0.7}


@EVERY
@looped("activation", functional.NONLINEARITIES)
def test_every_activation_matches_the_definition(activation, name, backend):
    for drawn in of_activation(name, activation):
        assert_defined(name, drawn, backend)


def of_width(name: str, units: int) -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
    """Yield operands, and how close results are to the definition."""
    more = {"activation": "tanh", "scale": 2.0}
    if name == "walk_aggregate":
        yield sums.tensors((5, 9, 3, units), ALL, F64) | more, {"rtol": 1e-4, "atol": 1e-12}
        single = sums.tensors((5, 9, 3, units), ALL, torch.float32)
        yield single | more, {"rtol": 1e-4, "atol": 1e-5}
    elif name == "walk_rounds":
        yield walks.tensors((5, 13, 3, 9, units, 2), True, F64) | {"depth": 2}, CLOSE
    else:
        yield from ((trees.tensors((12, 2, 3, units), parts, F64), CLOSE) for parts in trees.PARTS)


@NEEDS_CORE
@pytest.mark.parametrize("isa", core.USABLE)
@pytest.mark.parametrize("name", ["walk_aggregate", "walk_rounds", "tree_scan"])
@looped("units", [1, 7, 8, 16, 33, 70])
def test_every_instruction_set_matches_at_every_width(isa, name, units):
    for drawn, close in of_width(name, units):
        with core.instruction_set(isa):
            assert_defined(name, drawn, "cpp", **close)


@each_backend("walk_rounds")
@pytest.mark.parametrize(("order", "first"), [(1, 0), (2, 1), (4, 0), (4, 2)])
def test_gradients_match_for_walks_of_every_length(order, first, name, backend):
    given = walks.tensors((5, 9, 3, 4, 6, order), True, F64) | {"depth": 3, "first": first}
    assert_defined(name, given, backend)


@each_backend("walk_rounds")
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("order", ["graph by graph", "mixed"])
def test_results_do_not_depend_on_the_order_of_edges(order, count, name, backend):
    """The core takes some graphs at a time, if the edges lie graph by graph."""
    given, draw = walks.tensors((280, 700, K, 9, 20, 3), True, F64), torch.Generator()
    graphs = torch.randint(0, 40, (700,), generator=draw.manual_seed(1)).sort().values  # of seven
    ends = 7 * graphs + torch.randint(0, 7, (2, 700), generator=draw)
    if order == "mixed":
        ends = ends[:, torch.randperm(700, generator=draw)]
    given |= {"edge_index": ends, "depth": 3, "activation": "tanh"}
    with threads(count):
        assert_defined(name, given, backend, rtol=1e-10, atol=1e-10)


@each_backend("tree_scan")
@pytest.mark.parametrize("parts", trees.PARTS)
@pytest.mark.parametrize("count", [1, 2])
def test_large_and_deep_trees_match_the_definition(parts, count, name, backend):
    order = 2 if "factor" in parts else 1
    with threads(count):
        assert_defined(name, trees.tensors((300, 7, order, 37), parts, F64), backend)


@each_backend("walk_aggregate", "walk_rounds")
@pytest.mark.parametrize("empty", ["edges", "nodes"])
def test_graphs_without_edges_or_nodes_have_sums_and_gradients_of_zero(empty, name, backend):
    given = operands(name, edge_index=torch.zeros(2, 0).long(),
                     edge_attr=torch.zeros(0, K, dtype=F64))  # fmt: skip
    nodes = "labels" if name == "walk_rounds" else "nodes"
    if empty == "nodes":
        for key in {nodes, "source_gate", "target_gate"} & {*given}:
            given[key] = given[key][:0]
    y, *gradients = results(name, given, backend)
    assert y.shape == (len(given[nodes]), H)
    assert not any(tensor.any() for tensor in (y, *gradients))
    if name == "walk_aggregate":  # features alone
        empty_sums = walk_aggregate(torch.zeros(0, 3), torch.zeros(2, 0).long(), backend=backend)
        assert empty_sums.shape == (0, 3)
        assert walk_aggregate(torch.zeros(2, 0), torch.zeros(2, 3).long()).shape == (2, 0)
        alone = {"nodes": torch.randn(N, H), "edge_index": torch.zeros(2, 0).long()}
        assert not any(tensor.any() for tensor in results(name, alone, backend))


@each_backend("tree_scan")
@pytest.mark.parametrize("nodes", [0, 3])
def test_nodes_without_edges_have_the_states_of_leaves(nodes, name, backend):
    for parts in trees.PARTS:
        given = trees.tensors((nodes, nodes, 2, 4), parts, F64)
        y, *gradients = results(name, given, backend)
        torch.testing.assert_close(y[:, 0], given["products"][:, 0])
        assert not y[:, 1].any()
        torch.testing.assert_close(gradients[0][:, 0], y[:, 0].detach().cos())
        assert not any(gradient.any() for gradient in gradients[1:])


@each_backend("walk_aggregate", "walk_rounds")
def test_no_tensor_of_edges_by_units_is_kept(name, backend):
    given = operands(name)
    if name == "walk_rounds":
        given |= {"edge_index": torch.randint(0, N, (2, 1000)),
                  "edge_attr": torch.randn(1000, K, dtype=F64)}  # fmt: skip
    for key in ["labels"] if name == "walk_rounds" else differentiable(name):
        given[key].requires_grad_()
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        OPS[name].function(**given, backend=backend)
    if name == "walk_rounds":
        assert max(x.numel() for x in kept) < 1000 * min(d, H)
    else:
        own = {x.data_ptr() for x in given.values() if isinstance(x, Tensor)}
        assert {x.data_ptr() for x in kept} <= own


@each_backend("walk_rounds")
def test_rounds_are_not_kept_without_gradients(name, backend):
    given = operands(name)
    *_, hidden, tape = torch.ops.representer.walk_rounds(
        *(given[row.name] for row in OPS[name].table.rows), 3, 0, 1.0, "tanh", False, backend,
    )  # fmt: skip
    assert not hidden.numel()
    assert not tape.numel()
    with torch.no_grad():
        alone = walk_rounds(**given, backend=backend)
    kept = results(name, given, backend)[0]
    torch.testing.assert_close(alone, kept, rtol=1e-12, atol=1e-12)  # BLAS looks at where rows lie


@each_backend("tree_scan")
@pytest.mark.parametrize("parts", trees.PARTS)
def test_columns_of_one_product_are_operands(parts, name, backend):
    """The products and both terms of a gate are those of one matrix, as in the layer."""
    given = trees.tensors(trees.SIZES["9x2x3x5"], parts, F64)
    expected = tree_scan(**given, backend=backend)
    wide = torch.randn(9, 6, 5, dtype=F64)
    for key, columns in (("products", slice(0, 3)), ("source_gate", 3), ("target_gate", 4)):
        if key in given:
            wide[:, columns] = given[key].detach()
            given[key] = wide[:, columns]
    torch.testing.assert_close(tree_scan(**given, backend=backend), expected, **CLOSE)
    for key in ("products", *(["source_gate"] if "source_gate" in given else [])):  # one term alone
        given[key] = given[key].clone()
        torch.testing.assert_close(tree_scan(**given, backend=backend), expected, **CLOSE)


def test_a_decay_of_several_units_is_one_of_each():
    edges, decay = parents_of(0, 6), torch.tensor([0.2, 0.9], dtype=F64)
    products = torch.randn(6, 2, 2, dtype=F64)
    each = [tree_scan(products[..., i : i + 1], edges, decay=decay[i]) for i in range(2)]
    torch.testing.assert_close(tree_scan(products, edges, decay=decay), torch.cat(each, -1))


def test_unused_edge_features_have_no_gradient():
    edge_attr, nodes = torch.randn(E, K, requires_grad=True), torch.randn(N, H, requires_grad=True)
    y = walk_aggregate(nodes, operands("walk_aggregate")["edge_index"], edge_attr=edge_attr)
    assert torch.autograd.grad(y.sum(), [edge_attr], allow_unused=True) == (None,)


EDGES = [  # operator, what to change of the edges, message
    ("walk_aggregate", (0, 4, 5), r"edge_index\[0, 4\] is 5; expected 0 to 4, the nodes"),
    ("walk_aggregate", (1, 8, -1), r"edge_index\[1, 8\] is -1; expected 0 to 4, the nodes"),
    ("walk_rounds", (1, 8, 5), r"edge_index\[1, 8\] is 5; expected 0 to 4"),
    ("tree_scan", [[0, 1], [1, 0]], "a cycle above node 0"),
    ("tree_scan", [[0, 0], [1, 2]], r"edge_index of node 0 is 'the parents \[1, 2\]'"),
    ("tree_scan", [[0], [9]], r"edge_index\[1, 0\] is 9; expected 0 to 8"),
    ("tree_scan", [[-1], [0]], r"edge_index\[0, 0\] is -1"),
]


@pytest.mark.parametrize(("name", "backend", "edges", "message"), [
    (name, backend, edges, message) for name, edges, message in EDGES
    for backend, b in OPS[name].backends.items() if not b.missing
])  # fmt: skip
def test_the_error_for_a_wrong_edge_names_it(name, backend, edges, message):
    if isinstance(edges, tuple):
        end, edge, node = edges
        given = operands(name)
        given["edge_index"][end, edge] = node
    else:
        given = trees.tensors(trees.SIZES["9x2x3x5"], "", F64) | {"edge_index": torch.tensor(edges)}
    with pytest.raises(ArgumentError, match=message):
        OPS[name].function(**given, backend=backend)
    if name == "walk_aggregate":
        with pytest.raises(ArgumentError, match="expected no edges, since there are no nodes"):
            walk_aggregate(torch.zeros(0, 2), torch.zeros(2, 1).long(), backend=backend)


@NEEDS_CORE
@pytest.mark.parametrize("edges", [[[0, 1], [1, 0]], [[0, 0], [1, 2]], [[3], [3]]])
def test_the_core_refuses_edges_of_no_trees(edges):
    """It would read states that are not computed."""
    from representer.ops.tree_scan import Operands, Results, cpp_forward

    given = trees.tensors(trees.SIZES["9x2x3x5"], "", F64)
    p = Operands(given["products"], torch.tensor(edges), given["decay"], *[None] * 4, 1.0, "relu")
    with pytest.raises(BackendError, match="does not support"):
        cpp_forward(p, Results(torch.empty(9, 3, 5, dtype=F64), torch.empty(0, dtype=F64)))


@pytest.mark.parametrize(("name", "changes", "error", "message"), [
    ("walk_aggregate", {"edge_attr": None}, KindError, r"edge_attr is None; expected a .* \(9, f"),
    ("walk_aggregate", {"source_gate": None}, KindError, r"source_gate is None; .* \(5, 17\)"),
    ("walk_aggregate", {"target_gate": None}, KindError, r"target_gate is None; .* \(5, 17\)"),
    ("walk_aggregate", {"shift": None}, ArgumentError, "is 'tanh'; .* Apply it to nodes before"),
    ("walk_aggregate", {"activation": "sine"}, ArgumentError, "is 'sine'; expected .* identity"),
    ("walk_rounds", {"weight": torch.zeros(75, 4, dtype=F64)}, ShapeError, r"bias .*\(75,\)"),
    ("walk_rounds", {"bias": torch.zeros(75, dtype=F64)}, ShapeError, r"bias .*\(76,\)"),
    ("walk_rounds", {"factor": torch.zeros(17, 3, dtype=F64)}, ShapeError,
     r"factor .*\(steps, units, 3\)"),
    ("walk_rounds", {"edge_gate": None}, ShapeError, r"weight .*\(42, 4\)"),
    ("walk_rounds", {"depth": 0}, ArgumentError, "depth is 0"),
    ("walk_rounds", {"first": 3}, ArgumentError,
     "first is 3; expected 0 to 2, as there are 3 rounds"),
    ("walk_rounds", {"activation": "sine"}, ArgumentError, "activation is 'sine'"),
    ("tree_scan", {"products": torch.zeros(9, 0, 5, dtype=F64)}, ShapeError, "order 1 or more"),
    ("tree_scan", {"decay": torch.tensor(0.5, dtype=F64)}, KindError, "source_gate is a tensor"),
    ("tree_scan", {"target_gate": None}, KindError, "target_gate is None"),
    ("tree_scan", {"activation": "sine"}, ArgumentError, "activation is 'sine'"),
])  # fmt: skip
def test_the_error_for_a_wrong_argument_names_it(name, changes, error, message):
    with pytest.raises(error, match=message):
        OPS[name].function(**operands(name, **changes))
