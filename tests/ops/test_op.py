"""The contract of every operator with torch, and the choice of a backend."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from ops.samples import Sample
from ops.trials import arguments, few_samples, gradients, make, several
from representer.errors import BackendError
from representer.ops import OPS, Backend, Op, use_backend
from representer.ops.gated_scan import backward, forward

from .cases import EVERY_BACKEND, EVERY_OP, RecordedCalls, call, every

QUICK = ("test_schema", "test_autograd_registration", "test_faketensor")


def _check_operators(op: Op, backend: str, sample: Sample, which: tuple[str, ...]) -> None:
    tensors = make(sample, torch.float64)
    with RecordedCalls() as calls:
        gradients(call(op, backend, sample, tensors), tensors)
    names = [operator.name() for operator, _ in calls.made]
    assert names == [f"representer::{op.name}", f"representer::{op.name}_backward"]
    for operator, operands in calls.made:
        torch.library.opcheck(operator, _differentiable(operands), test_utils=which)


def _differentiable(operands: Iterable[Any]) -> tuple[Any, ...]:
    """Return copies of the operands that all require a gradient."""
    return tuple(
        x.detach().clone().requires_grad_(x.is_floating_point()) if isinstance(x, Tensor) else x
        for x in operands
    )


@every(few_samples)
def test_every_result_of_the_gradient_has_a_gradient(op: Op, backend: str, sample: Sample):
    """Also the empty one of an operand that is None, as tracers ask for it."""
    tensors = make(sample, torch.float64)
    with RecordedCalls() as calls:
        gradients(call(op, backend, sample, tensors), tensors)
    operator, operands = calls.made[1]
    operands = _differentiable(operands)
    results = several(operator(*operands))
    total = sum(result.sum() for result in results)
    assert isinstance(total, Tensor)
    total.backward()
    assert operands[0].grad.isfinite().all()


@pytest.mark.suite
@every(few_samples)
def test_opcheck_accepts_operator_and_gradient(op: Op, backend: str, sample: Sample):
    _check_operators(op, backend, sample, QUICK)


def every_eighth(op: Op) -> list[Sample]:
    return few_samples(op)[::8]


def _trace_with_dynamic_shapes(op: Op, backend: str, sample: Sample) -> None:
    if op.name == "tree_scan":
        pytest.xfail(
            "second derivatives are those of the definition, which reads the order of nodes"
        )
    _check_operators(op, backend, sample, ("test_aot_dispatch_dynamic",))


@pytest.mark.slow
@every(every_eighth)
def test_operator_and_gradient_trace_with_dynamic_shapes(op: Op, backend: str, sample: Sample):
    _trace_with_dynamic_shapes(op, backend, sample)


@pytest.mark.suite
@pytest.mark.slow
@pytest.mark.sweep
@every(few_samples)
def test_every_sample_traces_with_dynamic_shapes(op: Op, backend: str, sample: Sample):
    _trace_with_dynamic_shapes(op, backend, sample)


def _compile_to_one_graph(op: Op, backend: str | None, sample: Sample) -> None:
    torch._dynamo.reset()
    tensors = make(sample, torch.float32)

    def of(operands: dict[str, Tensor]) -> tuple[Tensor, ...]:
        return several(op.function(**operands, backend=backend))

    compiled = torch.compile(of, fullgraph=True, backend="aot_eager")
    operands = arguments(op, sample, tensors)
    results, expected = compiled(operands), of(operands)
    torch.testing.assert_close(results, expected)
    torch.testing.assert_close(gradients(results, tensors), gradients(expected, tensors))


@EVERY_OP
def test_compiles_to_one_graph_forward_and_backward(op: Op):
    _compile_to_one_graph(op, None, few_samples(op)[0])


@pytest.mark.slow
@every(every_eighth)
def test_samples_compile_to_one_graph_on_every_backend(op: Op, backend: str, sample: Sample):
    call(op, backend, sample, make(sample, torch.float32))  # skips a backend of another device
    _compile_to_one_graph(op, backend, sample)


@pytest.mark.slow
@pytest.mark.sweep
@every(few_samples)
def test_every_sample_compiles_to_one_graph_on_every_backend(op: Op, backend: str, sample: Sample):
    call(op, backend, sample, make(sample, torch.float32))  # skips a backend of another device
    _compile_to_one_graph(op, backend, sample)


@every(few_samples)
def test_autocast_computes_in_float32(op: Op, backend: str, sample: Sample):
    tensors = make(sample, torch.float32)
    halves = {
        name: t.detach().bfloat16().requires_grad_(t.requires_grad) if t.is_floating_point() else t
        for name, t in tensors.items()
    }
    with torch.autocast("cpu", torch.bfloat16):
        results = call(op, backend, sample, halves)
    assert all(result.dtype == torch.float32 for result in results)
    exact = {n: t.detach().float() if t.is_floating_point() else t for n, t in halves.items()}
    torch.testing.assert_close(results, call(op, backend, sample, exact))
    assert all(g.dtype == torch.bfloat16 for g in gradients(results, halves).values())


@EVERY_BACKEND
def test_gradients_under_autocast_are_those_outside(op: Op, backend: str):
    sample = few_samples(op)[0]
    tensors = make(sample, torch.float32)
    results = call(op, backend, sample, tensors)
    expected = gradients(results, tensors, retain_graph=True)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype):
            found = gradients(results, tensors, retain_graph=True)
        assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("name", ["gated_scan", "rkm_scan", "string_scan"])
def test_autocast_on_cuda_gives_the_kernels_16_bits_and_returns_float32(name: str):
    op = OPS[name]
    sample = few_samples(op)[0]
    tensors = make(sample, torch.float32)
    with RecordedCalls() as calls:
        call(op, "reference", sample, tensors)
    ((operator, given),) = calls.made
    assert op.table is not None
    graded = len(op.table.graded)
    expected, results = several(operator(*given)), several(op._operators.in_autocast(*given))
    kept = [x for x in results[graded:] if x.numel()]
    assert {x.dtype for x in results[:graded]} == {torch.float32}
    assert {x.dtype for x in kept} <= {torch.get_autocast_dtype("cuda")}
    for ours, exact in zip(results[:graded], expected, strict=False):
        assert (ours - exact).abs().max() <= 1e-2 * exact.abs().max().clamp_min(1e-3)
    halves = [x.bfloat16() if isinstance(x, Tensor) and x.is_floating_point() else x for x in given]
    assert several(op._operators.in_autocast(*halves))[0].dtype == torch.bfloat16


@EVERY_OP
def test_autocast_accepts_half_precision_beside_float32(op: Op):
    sample = few_samples(op)[0]
    tensors = make(sample, torch.float32)
    main = next(iter(tensors))
    mixed = {**tensors, main: tensors[main].detach().bfloat16()}
    with torch.autocast("cpu", torch.bfloat16):
        assert several(op.function(**arguments(op, sample, mixed)))[0].dtype == torch.float32
    with pytest.raises(TypeError, match=r"float32; expected torch.bfloat16"):
        op.function(**arguments(op, sample, mixed))


@EVERY_BACKEND
def test_use_backend_selects_the_backend_of_a_block(op: Op, backend: str):
    sample = few_samples(op)[0]
    operands = arguments(op, sample, make(sample, torch.float64))
    with use_backend(backend), RecordedCalls() as calls:
        gradients(several(op.function(**operands)), operands_that_are_tensors(operands))
    assert [made[-1] for _, made in calls.made] == [backend, backend]


def operands_that_are_tensors(operands: dict) -> dict[str, Tensor]:
    return {name: x for name, x in operands.items() if isinstance(x, Tensor)}


@EVERY_OP
def test_a_backend_requested_by_name_never_falls_back(op: Op):
    sample = few_samples(op)[0]
    operands = arguments(op, sample, make(sample, torch.float64))
    message = f"{op.name} has no backend 'abacus'; it has .*reference"
    with pytest.raises(BackendError, match=message):
        op.function(**operands, backend="abacus")
    with use_backend("abacus"), pytest.raises(BackendError, match=message):
        op.function(**operands)


@EVERY_OP
def test_the_reference_runs_everywhere_and_comes_last(op: Op):
    assert list(op.backends)[-1] == "reference"
    assert op.backends["reference"].devices == ()
    assert op.explain("abacus", ())["reference"] == ""


def _op_with(*backends: Backend) -> Op:
    op = replace(OPS["gated_scan"], backends={})
    for backend in backends:
        op.add_backend(backend)
    return op


PLAIN = Backend("reference", (), forward, backward)
ELSEWHERE = replace(PLAIN, name="elsewhere", devices=("cuda", "xpu"))
ABSENT = replace(PLAIN, name="absent", missing="the abacus is not installed")
PICKY = replace(PLAIN, name="picky", refuses=lambda p: "B is odd" if p else "")


def test_a_backend_added_later_is_tried_first():
    op = _op_with(PLAIN, replace(PLAIN, name="fast"))
    assert list(op.backends) == ["fast", "reference"]
    assert op.choose(None, "cpu", ()) == "fast"


def test_by_default_the_first_usable_backend_runs():
    op = _op_with(PLAIN, PICKY, ABSENT, ELSEWHERE)
    assert op.choose(None, "cpu", (1,)) == "reference"
    assert op.choose(None, "cpu", ()) == "picky"
    assert op.choose(None, "cuda", (1,)) == "elsewhere"


@pytest.mark.parametrize(("name", "reason"), [
    ("elsewhere", "runs on cuda and xpu, not on cpu"),
    ("absent", "the abacus is not installed"),
    ("picky", "B is odd"),
])  # fmt: skip
def test_a_refusal_names_the_reason_and_the_fix(name: str, reason: str):
    op = _op_with(PLAIN, PICKY, ABSENT, ELSEWHERE)
    assert op.explain("cpu", (1,))[name] == reason
    with pytest.raises(BackendError) as refusal:
        op.choose(name, "cpu", (1,))
    assert f"backend {name!r} cannot run this call: {reason}" in str(refusal.value)
    assert "Pass backend=None" in str(refusal.value)


def test_the_error_without_a_usable_backend_names_the_device():
    with pytest.raises(BackendError, match="no backend runs on cpu"):
        _op_with(ELSEWHERE).choose(None, "cpu", ())
