"""The public function walk_rounds."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from looped import looped
from ops.samples.walk_rounds import SIZES, tensors
from representer import functional
from representer.errors import ArgumentError, ShapeError
from representer.ops import OPS, core, walk_rounds

from ..cases import differentiable

BACKENDS = [name for name, b in OPS["walk_rounds"].backends.items() if not b.missing]
SIZE = "5x9x3x4x17x2"
N, E, K, d, H, _ = SIZES[SIZE]
F64 = torch.float64
every_backend = pytest.mark.parametrize("backend", BACKENDS)


def operands(dtype: torch.dtype = F64, **changes: Any) -> dict[str, Any]:
    return tensors(SIZES[SIZE], True, dtype) | {"depth": 3, "activation": "tanh"} | changes


def found(run: Any, given: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """Return the value and all gradients."""
    marked = [given[name] for name in differentiable("walk_rounds") if given.get(name) is not None]
    for tensor in marked:
        tensor.requires_grad_()
    y = run(**given)
    return y, *torch.autograd.grad(y, marked, y.detach().cos(), materialize_grads=True)


def test_two_rounds_match_the_sums_written_out():
    """y[v] = sum over both rounds of p_2[v] o sum_e s sigma(..) o p_1[u] o F a."""
    given = operands(depth=2, scale=10.0)
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


@every_backend
@looped("activation", functional.NONLINEARITIES)
def test_every_activation_matches_the_definition(activation, backend):
    for gated in (True, False):
        drawn = tensors(SIZES[SIZE], gated, F64)  # exponentials and poles need small arguments
        given = {n: x * 0.3 if x.is_floating_point() else x for n, x in drawn.items()}
        given |= {"depth": 3, "activation": activation}
        ours = found(lambda **o: walk_rounds(**o, backend=backend), given)
        torch.testing.assert_close(ours, found(functional.walk_rounds, given), rtol=1e-9, atol=1e-9)


@every_backend
@pytest.mark.parametrize(("order", "first"), [(1, 0), (2, 1), (4, 0), (4, 2)])
def test_gradients_match_for_walks_of_every_length(order, first, backend):
    given = tensors((5, 9, 3, 4, 6, order), True, F64) | {"depth": 3, "first": first}
    ours = found(lambda **o: walk_rounds(**o, backend=backend), given)
    torch.testing.assert_close(ours, found(functional.walk_rounds, given), rtol=1e-9, atol=1e-9)


@every_backend
@pytest.mark.parametrize("empty", ["edges", "nodes"])
def test_graphs_without_edges_or_nodes_are_accepted(empty, backend):
    given = operands(edge_index=torch.zeros(2, 0).long(), edge_attr=torch.zeros(0, K, dtype=F64))
    if empty == "nodes":
        given["labels"] = torch.zeros(0, d, dtype=F64)
    y, *gradients = found(lambda **o: walk_rounds(**o, backend=backend), given)
    assert y.shape == (len(given["labels"]), H)
    assert not y.any()
    assert not any(gradient.any() for gradient in gradients)


@every_backend
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("order", ["graph by graph", "mixed"])
def test_results_do_not_depend_on_the_order_of_edges(order, threads, backend):
    """The core takes some graphs at a time, if the edges lie graph by graph."""
    given, draw = tensors((280, 700, K, 9, 20, 3), True, F64), torch.Generator().manual_seed(1)
    graphs = torch.randint(0, 40, (700,), generator=draw).sort().values  # of seven nodes each
    ends = 7 * graphs + torch.randint(0, 7, (2, 700), generator=draw)
    if order == "mixed":
        ends = ends[:, torch.randperm(700, generator=draw)]
    given |= {"edge_index": ends, "depth": 3, "activation": "tanh"}
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ours = found(lambda **o: walk_rounds(**o, backend=backend), given)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(ours, found(functional.walk_rounds, given), rtol=1e-10, atol=1e-10)


@every_backend
def test_rounds_are_not_kept_without_gradients(backend):
    given = operands()
    *_, hidden, tape = torch.ops.representer.walk_rounds(
        *(given[row.name] for row in OPS["walk_rounds"].table.rows),
        3, 0, 1.0, "tanh", False, backend,
    )  # fmt: skip
    assert not hidden.numel()
    assert not tape.numel()
    with torch.no_grad():
        alone = walk_rounds(**given, backend=backend)
    kept = found(lambda **o: walk_rounds(**o, backend=backend), given)[0]
    torch.testing.assert_close(alone, kept, rtol=1e-12, atol=1e-12)  # BLAS looks at where rows lie


@every_backend
def test_no_tensor_of_edges_by_units_is_kept(backend):
    given = operands(edge_index=torch.randint(0, N, (2, 1000)), edge_attr=torch.randn(1000, K))
    given["edge_attr"] = given["edge_attr"].double()
    given["labels"].requires_grad_()
    kept: list[int] = []
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.append(x.numel()) or x, lambda x: x
    )
    with hooks:
        walk_rounds(**given, backend=backend)
    assert max(kept) < 1000 * min(d, H)


@pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
@pytest.mark.parametrize("isa", core.USABLE)
@pytest.mark.parametrize("units", [1, 7, 16, 33, 70])
def test_every_instruction_set_matches_at_every_width(isa, units):
    given = tensors((5, 13, 3, 9, units, 2), True, F64) | {"depth": 2}
    with core.instruction_set(isa):
        ours = found(lambda **o: walk_rounds(**o, backend="cpp"), given)
    torch.testing.assert_close(ours, found(functional.walk_rounds, given), rtol=1e-9, atol=1e-9)


@every_backend
def test_the_error_for_an_edge_to_a_missing_node_names_it(backend):
    given = operands()
    given["edge_index"][1, 8] = 5
    with pytest.raises(ArgumentError, match=r"edge_index\[1, 8\] is 5; expected 0 to 4"):
        walk_rounds(**given, backend=backend)


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"weight": torch.zeros(75, 4, dtype=F64)}, ShapeError, r"bias .*\(75,\)"),
    ({"bias": torch.zeros(75, dtype=F64)}, ShapeError, r"bias .*\(76,\)"),
    ({"factor": torch.zeros(17, 3, dtype=F64)}, ShapeError, r"factor .*\(steps, units, 3\)"),
    ({"edge_gate": None}, ShapeError, r"weight .*\(42, 4\)"),
    ({"depth": 0}, ArgumentError, "depth is 0"),
    ({"first": 3}, ArgumentError, "first is 3; expected 0 to 2, as there are 3 rounds"),
    ({"activation": "sine"}, ArgumentError, "activation is 'sine'"),
])  # fmt: skip
def test_the_error_for_a_wrong_shape_names_the_argument(changes, error, message):
    with pytest.raises(error, match=message):
        walk_rounds(**operands(**changes))
