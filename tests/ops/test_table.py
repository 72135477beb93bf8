"""The table of an op gives schemas, fakes and checks; a new op is declared in one place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple

import pytest
import torch
from torch import Tensor

from representer.errors import ArgumentError, KindError, ShapeError
from representer.ops.common import (
    check_like,
    dtypes_meet,
    may_need_gradient,
)
from representer.ops.table import (
    LENGTHS,
    Operand,
    OperandTable,
    Row,
    Sizes,
    check_operand,
    parse_axes,
)

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_an_op_declared_in_one_module_passes_the_generated_tests(tmp_path: Path):
    (tmp_path / "weighted_sum.py").write_text(MODULE, encoding="utf-8")
    program = """
        import inspect, sys, torch, weighted_sum
        from weighted_sum import OP
        from tests.ops import cases, test_batching, test_op, test_operators, test_ops

        schema = torch.ops.representer.weighted_sum.default._schema
        print(str(schema).partition("weighted_sum")[2])
        print(str(torch.ops.representer.weighted_sum_backward.default._schema).partition("(")[2])
        x, w = torch.ones(5, 3, device="meta"), torch.ones(3, device="meta")
        meta = weighted_sum.weighted_sum(x, w)
        print(tuple(meta.shape), meta.device)
        runs = 0
        for module in (test_ops, test_op, test_operators, test_batching):
            for name, test in inspect.getmembers(module, inspect.isfunction):
                parameters = list(inspect.signature(test).parameters)
                marks = {mark.args[0]: mark.args[1] for mark in getattr(test, "pytestmark", ())
                         if mark.name == "parametrize"}
                listed = marks.get(("op", "backend", "samples"), ())
                mine = [case.values for case in listed if case.values[0] is OP]
                if sorted(parameters) == ["backend", "op", "samples"]:
                    for op, backend, samples in mine:
                        test(op=op, backend=backend, samples=samples)
                        runs += len(samples)
        print(runs)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)],
        env={
            "PYTHONPATH": f"{tmp_path}:{ROOT}:{ROOT / 'tests'}:{ROOT / 'src'}",
            "PATH": "/usr/bin:/bin",
        },
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    forward, backward, meta, runs = done.stdout.splitlines()
    assert forward == "(Tensor x, Tensor w, Tensor? shift, float scale, str backend) -> Tensor"
    assert backward == (
        "Tensor grad_y, Tensor x, Tensor w, Tensor? shift, float scale, str backend)"
        " -> (Tensor, Tensor, Tensor)"
    )
    assert meta == "(5,) meta"
    assert int(runs) >= 20


MODULE = '''
"""y = scale x w + shift, an op in one module."""

from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from ops.samples import ADDED, Sample
from representer.ops import OPS, Backend, Op
from representer.ops.table import Operand
from representer.ops.table import OperandTable


class Operands(NamedTuple):
    x: Annotated[Tensor, Operand("batch units")]
    w: Annotated[Tensor, Operand("units")]
    shift: Annotated[Tensor | None, Operand("batch")]
    scale: float


class Results(NamedTuple):
    y: Annotated[Tensor, Operand("batch", saved=False)]


def weighted_sum(x, w, *, shift=None, scale=2.0, backend=None):
    return OP(Operands(x, w, shift, scale), backend)


def definition(x, w, *, shift=None, scale=2.0):
    return scale * (x * w).sum(1) + (0 if shift is None else shift)


def forward(p, new):
    return definition(**p._asdict())


def backward(p, kept, grad, requested):
    dy = p.scale * grad.y[:, None]
    found = {"x": dy * p.w, "w": (dy * p.x).sum(0)}
    return found if p.shift is None else found | {"shift": grad.y.clone()}


def samples():
    def of(name, batch, units, has_shift=False):
        def make(dtype):
            x = torch.linspace(-1, 2, batch * units, dtype=dtype).reshape(batch, units)
            given = {"x": x, "w": torch.linspace(0.5, 1, units, dtype=dtype)}
            return given | ({"shift": x[:, 0].clone()} if has_shift else {})
        return Sample(name, make, {"scale": 0.5})
    yield of("small", 1, 1)
    yield of("large", 5, 3)
    yield of("shifted", 4, 3, True)


OP = Op("weighted_sum", weighted_sum, definition)
ADDED["weighted_sum"] = samples
OP.register(OperandTable(Operands, Results))
OP.add_backend(Backend("reference", (), forward, backward))
OPS[OP.name] = OP
'''


class Operands(NamedTuple):
    x: Annotated[Tensor, Operand("time batch units", saved=False, on_request=True)]
    weight: Annotated[Tensor | None, Operand("units units")]
    lengths: Annotated[Tensor | None, LENGTHS]
    keep: bool


class Results(NamedTuple):
    y: Annotated[Tensor, Operand("time batch units", saved=False)]
    states: Annotated[
        Tensor, Operand("time units batch", needed=lambda p: p.keep, differentiable=False)
    ]


TABLE = OperandTable(Operands, Results)
X = torch.ones(2, 3, 4)


def test_the_gradient_schema_has_only_differentiable_tensors():
    assert TABLE.schema() == (
        "(Tensor x, Tensor? weight, Tensor? lengths, bool keep, str backend) -> (Tensor, Tensor)"
    )
    assert TABLE.backward_schema() == (
        "(Tensor grad_y, Tensor states, Tensor x, Tensor? weight, Tensor? lengths, bool keep,"
        " bool needs_x, str backend) -> (Tensor, Tensor)"
    )


def test_vmap_extends_the_axis_named_batch():
    assert [row.batch_axis() for row in TABLE.rows] == [1, None, 0]
    assert [row.batch_axis() for row in TABLE.returned] == [1, 2]


@pytest.mark.parametrize("keep", [False, True])
def test_results_have_the_shapes_of_the_table(keep: bool):
    p = Operands(X, None, None, keep)
    shapes = TABLE.result_shapes(p, TABLE.check(p, is_strict=True))
    assert shapes == [(2, 3, 4), (2, 4, 3) if keep else (0,)]


def test_requested_gradients_have_the_shapes_of_the_operands():
    empty, states = X.new_empty(0), torch.ones(2, 4, 3)
    p = Operands(empty, torch.ones(4, 4), None, True)
    results, gradients, sizes = TABLE.check_backward((X,), (states.mT.contiguous().mT,), p)
    assert results.y is None
    assert results.states.is_contiguous()
    assert gradients.y is X
    assert TABLE.gradient_shapes(p, sizes, {"x"}) == [(2, 3, 4), (4, 4)]
    assert TABLE.gradient_shapes(p, sizes, ()) == [(0,), (4, 4)]
    with pytest.raises(ArgumentError, match="keep is False"):
        TABLE.check_backward((X,), (states,), p._replace(keep=False))


def test_a_required_tensor_that_is_none_is_refused_on_every_path():
    states = torch.ones(2, 3, 4)
    with pytest.raises(KindError, match=r"c0 is None; expected a tensor \(3, 4\)"):
        torch.ops.representer.gated_scan(states, X[0, 0], None, None, False, "reference")
    with pytest.raises(KindError, match=r"c0 is None; expected a tensor"):
        torch.ops.representer.gated_scan_backward(
            states, X[0], states, X.new_empty(0), X[0, 0], None, None, False, "reference"
        )


def test_integer_operands_are_checked_against_the_sizes():
    p = Operands(X, None, torch.tensor([1, 2, 3]), True)
    with pytest.raises(ArgumentError, match=r"lengths\[2\] is 3; expected 0 to 2"):
        TABLE.check_values(p, TABLE.check(p, is_strict=True))


# A tensor against its declaration: shapes, dtypes, devices, and messages.


U = torch.ones(2, 3, 4)
LIKE = U, U.dtype, U.device


def check(
    tensor: Tensor | None,
    axes: str = "time batch units",
    *,
    is_strict: bool = False,
    needed: Callable[[Any], bool | None] | None = None,
) -> Sizes:
    """Check a second operand after u, and return the sizes."""
    sizes = {"time": 2, "batch": 3, "units": 4}
    row = Row("w", Operand(axes, needed=needed), True, parse_axes(axes), ())
    check_operand(row, tensor, SimpleNamespace(is_gated=True), sizes, LIKE, is_strict)
    return sizes


def test_axes_are_parsed_into_names_numbers_and_alternatives():
    assert parse_axes("2 time units | units |") == ((2, "time", "units"), ("units",), ())


def test_a_named_axis_has_one_size_in_a_call():
    assert check(torch.ones(4, 7), "units features")["features"] == 7
    with pytest.raises(ShapeError, match=r"w has shape \(4, 5\); expected \(4, 4\)"):
        check(torch.ones(4, 5), "units units")


def test_an_error_shows_the_sizes_known_before():
    with pytest.raises(ShapeError, match=r"w has shape \(9, 7, 5\); expected \(gates, 4, features"):
        check(torch.ones(9, 7, 5), "gates units features")


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 4)])
def test_the_number_of_axes_selects_among_alternatives(shape: tuple[int, ...]):
    assert "units" in check(torch.ones(shape), "time batch units | units |")
    with pytest.raises(ShapeError, match=r"expected \(2, 3, 4\), \(4,\) or \(\)"):
        check(torch.ones(5), "time batch units | units |")


def test_an_axis_that_must_not_be_empty_is_named():
    with pytest.raises(
        ShapeError, match=r"\(4, 0\); expected \(4, centers\) with at least one center"
    ):
        check(torch.ones(4, 0), "units centers")


def test_missing_and_superfluous_operands_are_named():
    check(None)
    check(U, needed=lambda p: p.is_gated)
    check(None, needed=lambda p: not p.is_gated)
    with pytest.raises(KindError, match=r"w is None; expected a tensor \(2, 3, 4\) in this call"):
        check(None, needed=lambda p: p.is_gated)
    with pytest.raises(KindError, match=r"w is a tensor \(2, 3, 4\); expected None in this call"):
        check(U, needed=lambda p: not p.is_gated)


def test_dtypes_may_differ_under_autocast_but_not_where_memory_is_read():
    half = U.bfloat16()
    with pytest.raises(KindError, match=r"w is torch.bfloat16; expected torch.float32. Use w.to"):
        check(half)
    with torch.autocast("cpu", torch.bfloat16):
        check(half)
        with pytest.raises(KindError, match=r"bfloat16; expected torch.float32"):
            check(half, is_strict=True)


@pytest.mark.parametrize(("tensor", "message"), [
    (U.to("meta"), r"w is on meta; expected cpu. Use w.to\('cpu'\)"),
    (U.long(), "w is torch.int64; expected a floating-point"),
    (U.to_sparse(), "w is torch.sparse_coo; expected a dense tensor. Use .to_dense()"),
])  # fmt: skip
def test_the_error_for_a_wrong_kind_of_tensor_states_the_fix(tensor: Tensor, message: str):
    with pytest.raises(KindError, match=message):
        check(tensor)


def test_lengths_are_integers_one_for_each_sequence():
    def of(lengths: Tensor) -> None:
        row = Row("lengths", LENGTHS, True, parse_axes(LENGTHS.axes), ())
        check_operand(row, lengths, None, {"batch": 3}, LIKE, True)

    of(torch.tensor([5, 0, 1], dtype=torch.uint8))
    with pytest.raises(ShapeError, match=r"lengths has shape \(2,\); expected \(3,\)"):
        of(torch.tensor([1, 2]))
    for dtype in (torch.float32, torch.complex64):
        with pytest.raises(KindError, match=f"lengths is {dtype}; expected integers.*long"):
            of(torch.ones(3, dtype=dtype))


# Checks of operands: messages name the value, what was expected, and the fix.


def test_devices_and_under_autocast_float64_have_to_match():
    single, double = torch.ones(2), torch.ones(2).double()
    with torch.autocast("cpu", torch.bfloat16):
        assert dtypes_meet(double, double)
        for tensor, like in ((single, double), (double, single)):
            assert not dtypes_meet(tensor, like)
            with pytest.raises(KindError, match=r"expected torch.float"):
                check_like("c0", tensor, like, (2,))
    with pytest.raises(KindError, match=r"c0 is on meta; expected cpu. Use c0.to\('cpu'\)"):
        check_like("c0", single.to("meta"), single, (2,))


def test_gradients_may_be_needed_with_autograd_or_vmap():
    plain, marked = torch.zeros(2, 3), torch.zeros(2, 3, requires_grad=True)
    assert not may_need_gradient((None, plain))
    assert may_need_gradient((None, plain, marked))
    with torch.no_grad():
        assert not may_need_gradient((marked,))
    found = []
    torch.vmap(lambda x: found.append(may_need_gradient((x,))) or x)(marked)
    assert found == [True]
