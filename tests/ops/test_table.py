"""The table of an op gives schemas, fakes and checks; a new op is declared in one place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Annotated, NamedTuple

import pytest
import torch
from torch import Tensor

from representer.errors import ArgumentError, KindError
from representer.ops.table import LENGTHS, Operand, OperandTable

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
