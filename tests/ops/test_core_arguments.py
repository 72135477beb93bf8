"""The C interface refuses arguments that it can recognize as wrong, instead of reading anywhere."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from torch import Tensor

from looped import looped
from ops.samples.walk_aggregate import tensors as walk
from ops.samples.walk_rounds import tensors as rounds
from representer.errors import ArgumentError, KindError, ShapeError
from representer.ops import core, structs, walk_aggregate, walk_rounds
from representer.training.lazy_adam import RowMoments, adam_rows, step_numbers

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
CELL = structs.CellStruct(gates=4, seen=4, output_gate=1)
CHAIN = structs.ChainStruct(order=1, products=1, states=1)
CALLS = {  # sizes of a call whose arrays are all absent
    "rkm_forward": (structs.ForwardStruct, {"time": 1, "batch": 1, "units": 1, "cell": CELL}),
    "rkm_backward": (structs.BackwardStruct, {"time": 1, "batch": 1, "units": 1, "cell": CELL}),
    "string_forward": (
        structs.StringForwardStruct, {"time": 1, "batch": 1, "units": 1, "chain": CHAIN},
    ),
    "string_backward": (
        structs.StringBackwardStruct, {"time": 1, "batch": 1, "units": 1, "chain": CHAIN},
    ),
    "rkm_few": (structs.FewStruct, {"grad_output": 64}),
    "string_few": (structs.FewStruct, {"grad_output": 64}),
    "scan_forward": (structs.ScanStruct, {"time": 1, "batch": 1, "units": 1}),
    "scan_backward": (structs.ScanStruct, {"time": 1, "batch": 1, "units": 1}),
    "string_gram": (structs.GramStruct, {"rows": 1, "columns": 1, "order": 1}),
    "walk_forward": (structs.WalkStruct, {"nodes": 1, "units": 1, "edges": 1}),
    "walk_backward": (structs.WalkStruct, {"nodes": 1, "units": 1, "edges": 1}),
    "separable_forward": (
        structs.SeparableStruct,
        {"time": 1, "batch": 1, "outputs": 1, "channels": 1, "length": 1, "rank": 1},
    ),
    "separable_backward": (
        structs.SeparableStruct,
        {"time": 1, "batch": 1, "outputs": 1, "channels": 1, "length": 1, "rank": 1},
    ),
    "rounds_forward": (structs.RoundsStruct, {"nodes": 1, "channels": 1, "units": 1, "depth": 1}),
    "rounds_backward": (structs.RoundsStruct, {"nodes": 1, "channels": 1, "units": 1, "depth": 1}),
    "trees_forward": (structs.TreesStruct, {"nodes": 1, "units": 1, "order": 1}),
    "trees_backward": (structs.TreesStruct, {"nodes": 1, "units": 1, "order": 1}),
    "activation_forward": (structs.ActivationStruct, {"rows": 1, "features": 1, "count": 1}),
    "activation_backward": (structs.ActivationStruct, {"rows": 1, "features": 1, "count": 1}),
    "kbrn_forward": (structs.KbrnStruct, {"time": 1, "batch": 1, "units": 1, "count": 1}),
    "kbrn_backward": (structs.KbrnStruct, {"time": 1, "batch": 1, "units": 1, "count": 1}),
    "adam_rows": (structs.AdamStruct, {"rows": 1, "features": 1, "step": 1}),
    "text_features": (structs.TextsStruct, {"rows": 1, "views": 1, "capacity": 1}),
    "filter_counts": (structs.FiltersStruct, {"series": 1, "steps": 1, "rows": 1, "thresholds": 1}),
    "sparse_gram": (structs.ColumnsStruct, {"rows": 1, "columns": 1}),
    "product": (structs.ProductStruct, {"m": 1, "n": 1, "k": 1}),
    "transposed": (structs.ProductStruct, {"m": 1, "n": 1}),
}  # fmt: skip
REFUSED = 1  # Status of csrc/status.hpp


@looped("operation", CALLS)
def test_absent_arrays_and_negative_counts_are_refused(operation: str):
    kind, sizes = CALLS[operation]
    run = core.function(operation, torch.float32)
    assert run(None) == REFUSED
    assert run(ctypes.byref(kind(**sizes))) == REFUSED
    for name, label in kind._fields_:
        if label is ctypes.c_int64 and name in sizes:
            assert run(ctypes.byref(kind(**sizes | {name: -1}))) == REFUSED, name


def test_unknown_options_are_refused():
    array = torch.zeros(64)
    options: list[tuple[str, Any, dict[str, Any]]] = [
        ("scan_forward", structs.ScanStruct, {"decay": 7}),
        ("activation_forward", structs.ActivationStruct, {"green": 4}),
        ("kbrn_forward", structs.KbrnStruct, {"green": -1}),
        ("walk_forward", structs.WalkStruct, {"activation": 99}),
        ("string_gram", structs.GramStruct, {"order": 0}),
        ("rkm_forward", structs.ForwardStruct, {"cell": structs.CellStruct(gates=4, seen=9)}),
        ("string_forward", structs.StringForwardStruct, {"chain": structs.ChainStruct(order=2)}),
    ]
    for operation, kind, option in options:
        pointers = [name for name, label in kind._fields_ if label is ctypes.c_void_p]
        given = dict.fromkeys(pointers, array.data_ptr()) | CALLS[operation][1] | option
        assert core.function(operation, torch.float32)(ctypes.byref(kind(**given))) == REFUSED


def test_the_gradient_of_few_rows_refuses_calls_that_it_cannot_read():
    array = torch.zeros(64)
    for operation, kind in (
        ("rkm", structs.ForwardStruct),
        ("string", structs.StringForwardStruct),
    ):
        pointers = [name for name, label in kind._fields_ if label is ctypes.c_void_p]
        sizes = CALLS[f"{operation}_forward"][1]
        given = dict.fromkeys(pointers, array.data_ptr()) | {"norm": None, "hold": None}
        given |= {"lengths": None, "mask": None}
        given = {name: given.get(name) for name in pointers} | sizes
        tape = ("gates", "cells") if operation == "rkm" else ("products", "states")
        run = core.function(f"{operation}_few", torch.float32)
        for name in ("lengths", "input_weight", *tape):
            wrong = array.data_ptr() if name == "lengths" else None
            for change, expected in ({name: wrong}, REFUSED), ({}, 0):
                call = kind(**given | change)
                few = structs.FewStruct(1, ctypes.addressof(call), array.data_ptr())
                assert run(ctypes.byref(few)) == expected, name


def test_counts_beyond_every_memory_are_no_memory():
    arguments = structs.ScanStruct(time=2**40, batch=2**30, units=2**20)
    with pytest.raises(MemoryError):
        core.call("scan_forward", torch.float64, arguments)


def test_the_memory_for_the_parts_of_threads_fits_their_number(monkeypatch: pytest.MonkeyPatch):
    """Another number of threads while a call runs must not move its writes."""
    of_walk = walk((7, 16, 3, 70), "shift factor gate edge", torch.float32)
    of_rounds = rounds((23, 60, 3, 37, 70, 3), True, torch.float32)
    calls: list[tuple[Any, dict[str, Any]]] = [
        (walk_aggregate, of_walk | {"activation": "tanh"}),
        (walk_rounds, of_rounds | {"depth": 3, "activation": "tanh"}),
    ]
    for run, given in calls:
        edges: Tensor = given["edge_attr"].requires_grad_()
        found = []
        for numbers in ([1] * 9, [1, 1, 4, 4, 4]):  # forward, memory of the gradient, gradient
            reads = iter(numbers)
            monkeypatch.setattr(core, "threads", lambda reads=reads: next(reads))
            result = run(**given, backend="cpp")
            found.append(torch.autograd.grad(result.sum(), edges)[0])
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_wide_rows_are_not_too_many():
    nodes, edges = torch.randn(3, 4096), torch.tensor([[0, 2], [1, 1]])
    found, wanted = (walk_aggregate(nodes, edges, backend=name) for name in ("cpp", "reference"))
    assert torch.equal(found, wanted)


def _moments(**changed: Any) -> dict[str, Any]:
    given = {"weight": torch.ones(4, 3), "first": torch.ones(4, 3), "second": torch.ones(4, 3),
             "last": torch.zeros(4, dtype=torch.int64)}  # fmt: skip
    numbers = torch.tensor([step_numbers(j + 1, 0.01) for j in range(3)]).double().T
    rows = torch.tensor([0, 2])
    call = {"rows": rows, "numbers": numbers, "step": 2, "gradient": None}
    moments = RowMoments(**{name: changed.pop(name, tensor) for name, tensor in given.items()})
    return {"moments": moments, **call, **changed}


@pytest.mark.parametrize(("changed", "error", "message"), [
    ({"rows": torch.tensor([0.0, 2.0])}, KindError, "rows"),
    ({"numbers": torch.ones(2, 3)}, KindError, "numbers"),
    ({"numbers": torch.ones(6).double()}, ShapeError, "numbers"),
    ({"last": torch.zeros(4, dtype=torch.int32)}, KindError, "last"),
    ({"first": torch.ones(4, 3).double()}, KindError, "first"),
    ({"gradient": torch.ones(2, 3).double()}, KindError, "gradient"),
    ({"step": -1}, ArgumentError, "step"),
    ({"weight": torch.ones(4)}, ShapeError, "weight"),
])  # fmt: skip
def test_rows_of_other_kinds_are_refused(changed: dict[str, Any], error: Any, message: str):
    for backend in ("cpp", "reference"):
        with pytest.raises(error, match=message):
            adam_rows(**_moments(**changed), backend=backend)
