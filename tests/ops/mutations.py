"""Calls the operators directly with wrong operands; run as a program, since a crash must be seen.

Every operand of both passes is replaced by wrong ones. Each backend must raise the same kind of
error of this library, or return what the reference returns.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from ops.trials import arguments, few_samples, gradients, make, several
from representer.errors import RepresenterError
from representer.ops import OPS, Op, torch_operator

from .cases import RecordedCalls, call

Mutation = tuple[str, Any]
INTEGERS = ("lengths", "edge_index")


def mutations(name: str, value: Any) -> Iterator[Mutation]:
    """Yield wrong values of an operand, and the same value in other memory layouts."""
    if isinstance(value, Tensor):
        yield from _of_tensor(name, value)
    elif isinstance(value, bool):
        yield "flipped", not value
    elif isinstance(value, int):
        yield from ((str(wrong), wrong) for wrong in (-1, 0, value + 1, 99))
    elif isinstance(value, float):
        yield from ((str(wrong), wrong) for wrong in (float("nan"), -1.0, 0.0))
    elif isinstance(value, str):
        yield "unknown", "abacus"


def _of_tensor(name: str, x: Tensor) -> Iterator[Mutation]:
    yield "one axis more", x[None]
    yield "None", None
    yield "int32", x.int()
    yield "float16", x.half()
    yield "other dtype", x.float() if x.dtype == torch.float64 else x.double()
    yield "complex", x.to(torch.complex128)
    yield "strided", torch.stack((x, torch.full_like(x, 7)), dim=-1)[..., 0]
    if x.is_floating_point():
        yield "negative view", torch._neg_view(-x)
        yield "sparse", x.to_sparse() if x.dim() else x
    if x.dim():
        yield "one axis less", x[0] if len(x) else x.sum(0)
        yield "permuted", x.movedim(0, -1).contiguous().movedim(-1, 0)
    for axis, size in enumerate(x.shape):
        yield f"axis {axis} empty", x.narrow(axis, 0, 0)
        if size:
            yield f"axis {axis} longer", torch.cat((x, x.narrow(axis, 0, 1)), axis)
            yield f"axis {axis} shorter", x.narrow(axis, 0, size - 1)
            yield f"axis {axis} of one", x.narrow(axis, 0, 1)
    if name in INTEGERS and x.numel():
        for wrong in (-1, 10**6, -(2**62), 2**62):
            far = x.clone(memory_format=torch.contiguous_format)
            far.view(-1)[-1] = wrong
            yield f"entry {wrong}", far


def outcome(operator: Any, operands: list[Any]) -> Any:
    """Return the results of a call, or the error of this library."""
    try:
        results = operator(*operands)
    except RepresenterError as error:
        return error
    return results if isinstance(results, tuple) else (results,)


def agree(result: Any, expected: Any) -> bool:
    """Return True if two outcomes are the same error or near results."""
    if isinstance(expected, Exception) or isinstance(result, Exception):
        return type(result) is type(expected) and str(result) == str(expected)
    return all(
        r.shape == e.shape and torch.allclose(r, e, 1e-4, 1e-4, equal_nan=True)
        for r, e in zip(result, expected, strict=True)
    )


def check(op: Op, backend: str, count: int) -> Iterator[str]:
    """Yield the failures of an op on a backend, for its samples with the most options."""
    samples = [s for s in few_samples(op) if s.name.count("1x1x1") == 0][:count]
    for sample in samples:
        with RecordedCalls() as calls:
            tensors = make(sample, torch.float64)
            results = call(op, backend, sample, tensors)
            gradients(results, tensors)
        for operator, recorded in calls.made:
            names = [argument.name for argument in operator._schema.arguments]
            for place, name in enumerate(names[:-1]):
                operands = [x.detach() if isinstance(x, Tensor) else x for x in recorded]
                for label, wrong in mutations(name, operands[place]):
                    where = f"{operator.name()} on {backend}, {sample.name}: {name} {label}"
                    print(where, flush=True)
                    operands[place] = wrong
                    public = len(results) if operator.name().endswith(op.name) else None
                    yield from _failures(where, operator, operands, public)


def check_public(op: Op, backend: str, count: int) -> Iterator[str]:
    """Yield where a public function's own checks let pass what its operator's checks do not."""
    for sample in few_samples(op)[:count]:
        tensors = make(sample, torch.float64)
        for name in tensors:
            for label, wrong in mutations(name, tensors[name].detach()):
                if wrong is None:  # which a caller that checks types does not pass
                    continue
                print(f"{op.name} on {backend}, {sample.name}: {name} {label}", flush=True)
                given = arguments(op, sample, {**tensors, name: wrong})
                once, twice = (_public_outcome(op, backend, given, known) for known in (1, 0))
                if not agree(once, twice):
                    yield f"{op.name} on {backend}, {sample.name}: {name} {label}: {once}, {twice}"


def _public_outcome(op: Op, backend: str, given: dict[str, Any], known: bool) -> Any:
    """Return the outcome of a public function; without ``known`` its operator checks all again."""
    same = torch_operator.is_ if known else lambda one, other: False
    with patch.object(torch_operator, "is_", same):
        try:
            return several(op.function(**given, backend=backend))
        except Exception as error:  # torch's own too, as of a sparse tensor that is reshaped
            return error


def _failures(where: str, operator: Any, operands: list[Any], public: int | None) -> Iterator[str]:
    label = where.rsplit(" ")[-1]
    try:
        result = outcome(operator, operands)
        is_reference = operands[-1] == "reference"
        expected = result if is_reference else outcome(operator, [*operands[:-1], "reference"])
    except Exception as error:
        # torch itself refuses None where the schema has no ?, and codes are read by `parse`
        if label not in ("None", "unknown"):
            yield f"{where}: {type(error).__name__}: {error}"
        return
    if public is None and label == "None":
        return  # a gradient without an operand that the forward pass had is of no function
    if isinstance(result, tuple) and isinstance(expected, tuple):  # without what is kept
        result, expected = result[:public], expected[:public]
    if not agree(result, expected):
        shown = (x if isinstance(x, Exception) else "results" for x in (result, expected))
        yield f"{where}: {' but on the reference '.join(map(str, shown))}"


if __name__ == "__main__":
    failures = [
        failure
        for op in OPS.values()
        for backend, way in op.backends.items()
        if not way.missing
        for run in (check, *[check_public] * (backend == "reference"))  # checks of all backends
        for failure in run(op, backend, int(sys.argv[1]))
    ]
    print(*failures, sep="\n", file=sys.stderr)
    sys.exit(bool(failures))
