"""The public function walk_aggregate."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from looped import looped
from ops.samples.walk_aggregate import SIZES, tensors
from representer.errors import ArgumentError, KindError
from representer.functional import NONLINEARITIES, walk_aggregate_definition
from representer.ops import OPS, core, walk_aggregate

from ..cases import differentiable

BACKENDS = [name for name, b in OPS["walk_aggregate"].backends.items() if not b.missing]
ALL = "shift factor gate edge"
N, E, K, H = SIZES["5x9x3x17"]


def operands(parts: str = ALL, dtype: torch.dtype = torch.float32, **changes: Any) -> dict:
    return {**tensors((N, E, K, H), parts, dtype), **changes}


@settings(deadline=None, max_examples=13)
@given(
    nodes=st.integers(1, 6), edges=st.integers(0, 12), features=st.integers(0, 4),
    units=st.integers(1, 3), seed=st.integers(0, 2**16),
    parts=st.lists(st.sampled_from(["shift", "factor", "gate"]), unique=True),
)  # fmt: skip
def test_the_sum_matches_a_loop_over_edges(nodes, edges, features, units, seed, parts):
    torch.manual_seed(seed)
    given = tensors((nodes, edges, features, units), " ".join([*parts, "edge"]), torch.float64)
    given["edge_index"] = torch.randint(0, nodes, (2, edges))
    if "gate" not in parts:
        given.pop("edge_gate")
    activation = "tanh" if "shift" in parts else "identity"
    found = walk_aggregate(**given, activation=activation)
    expected = walk_aggregate_definition(**given, activation=activation)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@looped("activation", NONLINEARITIES)
def test_every_activation_matches_the_definition(activation, backend):
    given = operands(dtype=torch.float64)
    marked = [given[name].requires_grad_() for name in differentiable("walk_aggregate")]
    slopes = torch.randn(N, H, dtype=torch.float64)
    found, expected = (
        run(**given, activation=activation, scale=10.0)
        for run in (
            lambda **o: walk_aggregate(**o, backend=backend),
            OPS["walk_aggregate"].definition,
        )
    )
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(
        *(torch.autograd.grad(y, marked, slopes) for y in (found, expected)), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("parts", ["", ALL])
def test_without_edges_sums_and_gradients_are_zero(parts, backend):
    given = operands(parts, edge_index=torch.zeros(2, 0, dtype=torch.int64))
    if parts:
        given["edge_attr"] = torch.zeros(0, K)
    for name in differentiable("walk_aggregate"):
        given.get(name, torch.zeros(1)).requires_grad_()
    y = walk_aggregate(**given, backend=backend)
    assert not y.any()
    y.sum().backward()
    marked = [x for x in given.values() if x.requires_grad]
    assert all(x.grad.shape == x.shape and not x.grad.any() for x in marked)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_graph_has_empty_sums(backend):
    empty = walk_aggregate(torch.zeros(0, 3), torch.zeros(2, 0).long(), backend=backend)
    assert empty.shape == (0, 3)
    assert walk_aggregate(torch.zeros(2, 0), torch.zeros(2, 3).long()).shape == (2, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_tensor_of_edges_by_units_is_kept(backend):
    given = operands()
    for name in differentiable("walk_aggregate"):
        given[name].requires_grad_()
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        walk_aggregate(**given, activation="tanh", backend=backend)
    own = {x.data_ptr() for x in given.values()}
    assert {x.data_ptr() for x in kept} <= own


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("end", "edge", "node"), [(0, 4, 5), (1, 8, -1)])
def test_the_error_for_an_edge_to_a_missing_node_names_it(end, edge, node, backend):
    given = operands()
    given["edge_index"][end, edge] = node
    message = rf"edge_index\[{end}, {edge}\] is {node}; expected 0 to 4, the nodes"
    with pytest.raises(ArgumentError, match=message):
        walk_aggregate(**given, activation="tanh", backend=backend)
    with pytest.raises(ArgumentError, match="expected no edges, since there are no nodes"):
        walk_aggregate(torch.zeros(0, 2), torch.zeros(2, 1).long(), backend=backend)


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"edge_attr": None}, KindError, r"edge_attr is None; expected a tensor \(9, f"),
    ({"source_gate": None}, KindError, r"source_gate is None; expected a tensor \(5, 17\)"),
    ({"target_gate": None}, KindError, r"target_gate is None; expected a tensor \(5, 17\)"),
    ({"shift": None}, ArgumentError, "activation is 'tanh'; .* Apply it to nodes before"),
    ({"activation": "sine"}, ArgumentError, "activation is 'sine'; expected one of identity"),
])  # fmt: skip
def test_the_error_for_a_wrong_shape_names_the_argument(changes, error, message):
    with pytest.raises(error, match=message):
        walk_aggregate(**{**operands(), "activation": "tanh", **changes})


def test_unused_edge_features_have_no_gradient():
    edge_attr = torch.randn(E, K, requires_grad=True)
    nodes = torch.randn(N, H, requires_grad=True)
    y = walk_aggregate(nodes, operands()["edge_index"], edge_attr=edge_attr)
    assert torch.autograd.grad(y.sum(), [edge_attr], allow_unused=True) == (None,)


@pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
@pytest.mark.parametrize("isa", core.USABLE)
@looped("units", [1, 7, 8, 16, 33, 70])
@looped("dtype", [torch.float32, torch.float64])
def test_every_instruction_set_matches_at_every_width(isa, units, dtype):
    given = tensors((5, 9, 3, units), ALL, dtype)
    marked = [given[name].requires_grad_() for name in differentiable("walk_aggregate")]
    slopes, found = torch.randn(5, units, dtype=dtype), []
    for backend in ("cpp", "reference"):
        with core.instruction_set(isa):
            y = walk_aggregate(**given, activation="tanh", scale=2.0, backend=backend)
        found.append((y, torch.autograd.grad(y, marked, slopes)))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5 if dtype == torch.float32 else 1e-12)
