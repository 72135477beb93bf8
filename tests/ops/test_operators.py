"""Tests of the checks inside the operators: both passes, direct calls, forward-mode AD."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from ops.samples import Sample
from ops.trials import arguments, few_samples, gradients, make, several
from representer import nn
from representer.errors import ArgumentError, BackendError, KindError, ShapeError
from representer.ops import OPS, Op, core, use_backend

from .cases import EVERY_OP, RecordedCalls, call, every, size

TESTS = Path(__file__).parents[1]
DEADLINE = 600  # seconds; it takes 10 on an idle machine


class Reversed(TorchDispatchMode):
    """Calls gated_scan with the other direction than its public function did."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.representer.gated_scan.default:
            args = (*args[:4], not args[4], *args[5:])
        return func(*args, **(kwargs or {}))


def test_an_operator_uses_its_own_options_and_not_those_of_the_public_call():
    u, f = torch.randn(5, 2, 3), torch.tensor(0.5)
    with Reversed():
        states, _ = OPS["gated_scan"].function(u, f)
    assert torch.equal(states, OPS["gated_scan"].function(u, f, reverse=True)[0])


def test_no_operand_outlives_its_call():
    u = torch.randn(5, 2, 3)
    alive = weakref.ref(u)
    OPS["gated_scan"].function(u, torch.tensor(0.5))
    del u
    assert alive() is None


@pytest.mark.parametrize("count", [1, pytest.param(6, marks=[pytest.mark.slow, pytest.mark.sweep])])
def test_wrong_operands_raise_the_same_error_on_every_backend(count: int):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "ops.mutations", str(count)], cwd=TESTS,
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"{last}\n{done.stderr[:4000]}"
    assert len(done.stdout.splitlines()) > 1000 * count


FREE = {  # axes that may have any length where no other operand of a call has them
    "gated_scan": "time", "rkm_scan": "time", "string_scan": "biased time", "kbrn_scan": "time",
    "tree_scan": "edges nodes order steps", "walk_aggregate": "", "walk_rounds": "nodes",
    "kernel_activation": "batch", "edge_activation": "batch outputs",
    "separable_convolution": "batch samples slots",
}  # fmt: skip


@EVERY_OP
def test_the_error_for_a_wrong_operand_names_it_and_what_was_expected(op: Op):
    """Every tensor in another dtype, on another device, and with each axis longer by one."""
    assert op.table is not None
    for sample in few_samples(op):
        tensors = sample.make(torch.float32)

        def message(error: type[Exception], name: str, wrong: Tensor) -> str:
            given = arguments(op, sample, {**tensors, name: wrong})  # noqa: B023
            with pytest.raises(error) as caught:
                op.function(**given)
            return str(caught.value)

        p = op.table.operands(*map(arguments(op, sample, tensors).get, op.table.operands._fields))
        shapes = {row.name: row.axes_in(p) for row in op.table.rows if row.name in tensors}
        axes = {n: next(a for a in s if len(a) == tensors[n].dim()) for n, s in shapes.items()}
        met = Counter(axis for each in axes.values() for axis in each)
        for place, (name, x) in enumerate(tensors.items()):
            wrong, expected = (x.double(), "torch.float32") if place else (x.long(), "a floating")
            if not x.is_floating_point():
                wrong, expected = x.double(), "torch.int64" if x.dim() > 1 else "integers"
            assert f"{name} is {wrong.dtype}; expected {expected}" in message(
                KindError, name, wrong
            )
            if place:
                assert f"{name} is on meta; expected cpu" in message(KindError, name, x.to("meta"))
            for axis, label in enumerate(axes[name]):
                is_free = met[label] == 1 and label in FREE[op.name].split()
                if x.shape[axis] and not is_free:
                    longer = torch.cat((x, x.narrow(axis, 0, 1)), axis)
                    assert " has shape " in message(ShapeError, name, longer), (name, axis)


@EVERY_OP
def test_it_runs_on_meta_tensors(op: Op):
    sample = few_samples(op)[0]
    tensors = make(sample, torch.float32)
    results = several(op.function(**arguments(op, sample, tensors)))
    away = {name: x.detach().to("meta") for name, x in tensors.items()}
    found = several(op.function(**arguments(op, sample, away)))
    assert [(x.shape, x.device.type) for x in found] == [(x.shape, "meta") for x in results]


def test_operands_of_public_functions_are_checked_once(monkeypatch):
    table = OPS["gated_scan"].table
    assert table is not None
    is_strict, backward, check = [], [], table.check
    monkeypatch.setattr(
        table, "check", lambda p, **how: is_strict.append(how["is_strict"]) or check(p, **how)
    )
    check_backward = table.check_backward
    monkeypatch.setattr(
        table, "check_backward", lambda *given: backward.append(given) or check_backward(*given)
    )
    u, f = torch.ones(2, 3, 4, requires_grad=True), torch.ones(4)
    states, _ = OPS["gated_scan"].function(u, f)
    assert is_strict == [False]
    states.sum().backward()
    assert len(backward) == 1
    torch.ops.representer.gated_scan(u, f, u[0], None, False, "reference")
    assert is_strict == [False, True]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_dtype_that_the_core_lacks_is_an_error_of_this_library(dtype: torch.dtype):
    if core.MISSING:
        pytest.skip(core.MISSING)
    x = torch.ones(2, 3, 4, dtype=dtype)
    with pytest.raises(BackendError, match=f"takes float32 and float64, not {dtype}"):
        torch.ops.representer.gated_scan_backward(
            x, x[0], x, x[:0, 0, 0], x, x[0], None, False, "cpp"
        )


# --- what changes between the two passes


@every(few_samples)
def test_saved_tensors_of_another_dtype_are_refused(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float64)
    with saved_tensors_hooks(lambda tensor: tensor.half(), lambda half: half):
        results = call(op, backend, sample, tensors)
    with pytest.raises((TypeError, RuntimeError), match="float16"):
        gradients(results, tensors)


@every(lambda op: [s for s in few_samples(op) if "edge_index" in s.make(torch.float64)])
def test_edges_that_change_between_the_passes_are_refused(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float64)
    buffer = tensors["edge_index"].numpy()
    results = call(op, backend, sample, tensors)
    buffer[1, -1] = 10**9
    with pytest.raises(ArgumentError, match=r"edge_index\[1, \d+\] is 1000000000; expected 0 to"):
        gradients(results, tensors)


@every(lambda op: [s for s in few_samples(op) if "lengths" in s.make(torch.float64)])
def test_lengths_that_change_between_the_passes_are_refused(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float64)
    buffer = tensors["lengths"].numpy()
    results = call(op, backend, sample, tensors)
    buffer[-1] = 10**9
    with pytest.raises(ArgumentError, match=r"lengths\[\d\] is 1000000000; expected 0 to"):
        gradients(results, tensors)


# --- forward-mode AD


def _tangents(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
        for name, x in tensors.items()
        if x.requires_grad
    }


def _derivatives(run: Any, tensors: dict[str, Tensor]) -> tuple[Tensor, ...]:
    tangents = _tangents(tensors)
    with forward_ad.dual_level():
        duals = {
            name: forward_ad.make_dual(x.detach(), tangents[name]) if name in tangents else x
            for name, x in tensors.items()
        }
        return tuple(forward_ad.unpack_dual(r).tangent for r in run(duals))


@every(few_samples)
def test_forward_mode_gives_the_transpose_of_the_gradient(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float64)
    tangents = _tangents(tensors)
    derivatives = _derivatives(
        lambda duals: several(op.function(**arguments(op, sample, duals))), tensors
    )
    results = call(op, backend, sample, tensors)
    generator = torch.Generator().manual_seed(0)  # the cotangents of `gradients`
    cotangents = [torch.randn(r.shape, generator=generator, dtype=torch.float64) for r in results]
    pushed = sum((c * d).sum() for c, d in zip(cotangents, derivatives, strict=True))
    pulled = sum((g * tangents[n]).sum() for n, g in gradients(results, tensors).items())
    torch.testing.assert_close(pushed, pulled)


def _scalar_function(op: Op, sample: Sample) -> tuple[Callable[[Tensor], Tensor], Tensor, Tensor]:
    """Return a function of the first operand with a gradient, the operand, and the gradient."""
    tensors = make(sample, torch.float64)
    name = next(name for name, x in tensors.items() if x.requires_grad)

    def total(x: Tensor) -> Tensor:
        results = several(op.function(**arguments(op, sample, {**tensors, name: x})))
        return sum((i + 1) * r.square().sum() for i, r in enumerate(results))  # type: ignore

    x = tensors[name].detach()
    marked = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(total(marked), marked)
    return total, x, expected


READS = {
    "tree_scan"
}  # operators whose definition reads the edges, of which it has one loop a depth


def _by_lengths(op: Op, *, are_ragged: bool) -> list[Sample]:
    return [s for s in few_samples(op) if are_ragged == ("lengths" in s.make(torch.float64))]


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr")  # by linearize itself
@EVERY_OP
@pytest.mark.parametrize("ragged", [False, True])
def test_forward_mode_transforms_agree_with_the_gradient(op: Op, ragged: bool):
    samples = _by_lengths(op, are_ragged=ragged)
    if not samples:
        pytest.skip("no such samples")
    total, x, expected = _scalar_function(op, min(samples, key=size))
    torch.testing.assert_close(torch.func.jacfwd(total)(x), expected)
    if not ragged and op.name not in READS:  # the definition reads lengths, which no trace can
        _, pushed = torch.func.linearize(total, x)
        torch.testing.assert_close(pushed(torch.ones_like(x)), expected.sum())


@EVERY_OP
def test_a_backend_without_forward_mode_is_refused_and_the_reference_is_named(op: Op):
    sample = few_samples(op)[0]
    operands = arguments(op, sample, make(sample, torch.float64))
    with forward_ad.dual_level():
        reference = several(op.function(**operands, backend="reference"))
        for result, default in zip(reference, several(op.function(**operands)), strict=True):
            assert torch.equal(result, default)
        for name in op.backends:
            if name != "reference":
                with pytest.raises(BackendError, match='pass backend="reference"'):
                    op.function(**operands, backend=name)
                with use_backend(name), pytest.raises(BackendError, match="forward-mode"):
                    op.function(**operands)
        with pytest.raises(BackendError, match="no backend 'abacus'"):
            op.function(**operands, backend="abacus")


@EVERY_OP
def test_operators_that_would_lose_tangents_are_refused(op: Op):
    sample = few_samples(op)[0]
    tensors = make(sample, torch.float64)
    with RecordedCalls() as calls:
        gradients(call(op, "reference", sample, tensors), tensors)
    for operator, operands in calls.made:
        detached = [x.detach() if isinstance(x, Tensor) else x for x in operands]
        with forward_ad.dual_level():
            detached[0] = forward_ad.make_dual(detached[0], torch.ones_like(detached[0]))
            with pytest.raises(BackendError, match='backend="reference"'):
                operator(*detached)


def test_step_has_a_forward_derivative():
    layer = nn.RKMLSTM(3, 4)
    x = torch.randn(2, 3)
    with torch.no_grad():
        _, state = layer.step(x)
        expected = (layer.step(x + 1e-3, state)[0] - layer.step(x - 1e-3, state)[0]) / 2e-3
        with forward_ad.dual_level():
            output, _ = layer.step(forward_ad.make_dual(x, torch.ones_like(x)), state)
            tangent = forward_ad.unpack_dual(output).tangent
    torch.testing.assert_close(tangent, expected, atol=1e-3, rtol=1e-2)
