"""The public function tree_scan."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from drawn_trees import parents_of
from looped import looped
from ops.samples.tree_scan import PARTS, SIZES, tensors
from representer import functional
from representer.errors import ArgumentError, KindError, ShapeError
from representer.ops import OPS, core, tree_scan

from ..cases import differentiable

BACKENDS = [name for name, b in OPS["tree_scan"].backends.items() if not b.missing]
every_backend = pytest.mark.parametrize("backend", BACKENDS)
F64 = torch.float64
SIZE = SIZES["9x2x3x5"]
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def operands(parts: str = "gate state factor", dtype: torch.dtype = F64, **changes: Any) -> Any:
    return tensors(SIZE, parts, dtype) | changes


def found(run: Any, given: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """Return the value and all gradients."""
    marked = [given[name] for name in differentiable("tree_scan") if given.get(name) is not None]
    for tensor in marked:
        tensor.requires_grad_()
    y = run(**given)
    return y, *torch.autograd.grad(y, marked, y.detach().cos(), materialize_grads=True)


@every_backend
@looped("activation", functional.NONLINEARITIES)
def test_every_activation_of_the_state_matches_the_definition(activation, backend):
    for order, parts in ((1, "gate state"), (2, "gate state factor")):  # of trees with many levels
        drawn = tensors((30, 1, order, 5), parts, F64)
        given = {n: x * 0.4 if x.is_floating_point() else x for n, x in drawn.items()}
        given |= {"activation": activation, "scale": 0.7}
        ours = found(lambda **o: tree_scan(**o, backend=backend), given)
        torch.testing.assert_close(ours, found(functional.tree_scan, given), **CLOSE)


@every_backend
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("threads", [1, 2])
def test_large_and_deep_trees_match_the_definition(parts, threads, backend):
    order = 2 if "factor" in parts else 1
    given, before = tensors((300, 7, order, 37), parts, F64), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ours = found(lambda **o: tree_scan(**o, backend=backend), given)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(ours, found(functional.tree_scan, given), **CLOSE)


@pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
@pytest.mark.parametrize("isa", core.USABLE)
@looped("units", [1, 7, 16, 33, 70])
def test_every_instruction_set_matches_at_every_width(isa, units):
    for parts in PARTS:
        given = tensors((12, 2, 3, units), parts, F64)
        with core.instruction_set(isa):
            ours = found(lambda **o: tree_scan(**o, backend="cpp"), given)
        torch.testing.assert_close(ours, found(functional.tree_scan, given), **CLOSE)


@every_backend
@pytest.mark.parametrize("parts", PARTS)
def test_columns_of_one_product_are_operands(parts, backend):
    """The products and both terms of a gate are those of one matrix, as in the layer."""
    given = operands(parts)
    expected = tree_scan(**given, backend=backend)
    wide = torch.randn(9, 6, 5, dtype=F64)
    for name, columns in (("products", slice(0, 3)), ("source_gate", 3), ("target_gate", 4)):
        if name in given:
            wide[:, columns] = given[name].detach()
            given[name] = wide[:, columns]
    torch.testing.assert_close(tree_scan(**given, backend=backend), expected, **CLOSE)
    del given["products"]
    other = wide[:, :3].clone()
    mixed = tree_scan(products=other, **given, backend=backend)
    torch.testing.assert_close(mixed, expected, **CLOSE)


@every_backend
@pytest.mark.parametrize("nodes", [0, 3])
def test_nodes_without_edges_have_the_states_of_leaves(nodes, backend):
    for parts in PARTS:
        given = tensors((nodes, nodes, 2, 4), parts, F64)
        y, *gradients = found(lambda **o: tree_scan(**o, backend=backend), given)
        torch.testing.assert_close(y[:, 0], given["products"][:, 0])
        assert not y[:, 1].any()
        torch.testing.assert_close(gradients[0][:, 0], y[:, 0].detach().cos())
        assert not any(gradient.any() for gradient in gradients[1:])


@every_backend
@pytest.mark.parametrize(("edges", "message"), [
    ([[0, 1], [1, 0]], "a cycle above node 0"),
    ([[0, 0], [1, 2]], r"edge_index of node 0 is 'the parents \[1, 2\]'"),
    ([[0], [9]], r"edge_index\[1, 0\] is 9; expected 0 to 8"),
    ([[-1], [0]], r"edge_index\[0, 0\] is -1"),
])  # fmt: skip
def test_edges_of_no_trees_are_refused(edges, message, backend):
    with pytest.raises(ArgumentError, match=message):
        tree_scan(**operands("", edge_index=torch.tensor(edges)), backend=backend)


@pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
@pytest.mark.parametrize("edges", [[[0, 1], [1, 0]], [[0, 0], [1, 2]], [[3], [3]]])
def test_the_core_refuses_edges_of_no_trees(edges):
    """It would read states that are not computed."""
    from representer.errors import BackendError
    from representer.ops.tree_scan import cpp_forward
    from representer.ops.tree_scan.reference import Operands, Results

    given = operands("", edge_index=torch.tensor(edges))
    p = Operands(given["products"], given["edge_index"], given["decay"], *[None] * 4, 1.0, "relu")
    with pytest.raises(BackendError, match="does not support"):
        cpp_forward(p, Results(torch.empty(9, 3, 5, dtype=F64), torch.empty(0, dtype=F64)))


@pytest.mark.parametrize(("changes", "error", "message"), [
    ({"products": torch.zeros(9, 0, 5, dtype=F64)}, ShapeError, "order 1 or more"),
    ({"decay": torch.tensor(0.5, dtype=F64)}, KindError, "source_gate is a tensor"),
    ({"target_gate": None}, KindError, "target_gate is None"),
    ({"activation": "sine"}, ArgumentError, "activation is 'sine'"),
])  # fmt: skip
def test_the_error_for_a_wrong_argument_names_it(changes, error, message):
    with pytest.raises(error, match=message):
        tree_scan(**operands(**changes))


def test_a_decay_of_several_units_is_one_of_each():
    edges, decay = parents_of(0, 6), torch.tensor([0.2, 0.9], dtype=F64)
    products = torch.randn(6, 2, 2, dtype=F64)
    each = [tree_scan(products[..., i : i + 1], edges, decay=decay[i]) for i in range(2)]
    torch.testing.assert_close(tree_scan(products, edges, decay=decay), torch.cat(each, -1))
