"""Derivatives of the operators: of second order, inside ``torch.func``, and what they keep."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, jacrev

from ops.samples import Sample, samples_of
from ops.trials import (
    arguments,
    define,
    few_samples,
    gradients,
    make,
    public_results,
    several,
)
from representer import functional
from representer.functional.rkm import LSTM, RKM_LSTM
from representer.ops import OPS, Op, gated_scan, rkm_scan
from representer.ops.scans import of_onnx

from .cases import EVERY_OP, size

Total = Callable[[Tensor], Tensor]


def _has_right_second_derivative(op: Op, backend: str | None, sample: Sample) -> bool:
    tensors = make(sample, torch.float64)

    def of(*values: Tensor) -> tuple[Tensor, ...]:
        operands = arguments(op, sample, dict(zip(tensors, values, strict=True)))
        return several(op.function(**operands, backend=backend))

    operands = tuple(tensors.values())
    return torch.autograd.gradgradcheck(of, operands, fast_mode=True, check_undefined_grad=False)


@pytest.mark.suite
@pytest.mark.filterwarnings("ignore:Backwards compatibility")  # of checking undefined gradients
@EVERY_OP
def test_second_derivatives_match_numerical_ones(op: Op):
    assert all(_has_right_second_derivative(op, None, sample) for sample in few_samples(op)[::5])


def _totals(op: Op, sample: Sample, name: str) -> tuple[Tensor, Total, Total]:
    """Return an operand, and a sum over the results as a function of it: ours and the definition's.
    """  # fmt: skip
    tensors = {n: x.detach() for n, x in make(sample, torch.float64).items()}

    def ours(x: Tensor) -> Tensor:
        results = several(op.function(**arguments(op, sample, tensors | {name: x})))
        return sum((r.square().sum() for r in results[: public_results(op)]), x.new_zeros(()))

    def exact(x: Tensor) -> Tensor:
        results = define(op, sample, tensors | {name: x})
        return sum((r.square().sum() for r in results), x.new_zeros(()))

    return tensors[name], ours, exact


@EVERY_OP
def test_transforms_of_torch_func_nest_in_any_order(op: Op):
    sample = min(few_samples(op), key=size)
    tensors = make(sample, torch.float64)
    for name in [n for n, x in tensors.items() if x.requires_grad]:
        x, ours, exact = _totals(op, sample, name)
        expected = torch.autograd.functional.hessian(exact, x)
        nested = {
            "jacrev of jacrev": jacrev(jacrev(ours))(x),
            "hessian": torch.func.hessian(ours)(x),
            "autograd": torch.autograd.functional.hessian(ours, x),
            "autograd of grad": torch.autograd.functional.jacobian(grad(ours), x),
        }
        for order, found in nested.items():
            where = f"{name}, {order}"
            torch.testing.assert_close(found, expected, msg=lambda m, w=where: f"{w}: {m}")


@EVERY_OP
def test_gradients_of_third_order_are_those_of_the_definition(op: Op):
    sample = few_samples(op)[-1]
    name = next(iter(make(sample, torch.float64)))
    x, *totals = _totals(op, sample, name)
    third = []
    for total in totals:
        (point,) = derivatives = [x.clone().requires_grad_()]
        for _ in range(3):
            total_of = total(point) if len(derivatives) == 1 else derivatives[-1].square().sum()
            derivatives += torch.autograd.grad(
                total_of, point, create_graph=True, materialize_grads=True
            )
        third.append(derivatives[-1].detach())
    torch.testing.assert_close(*third)


def _saved_bytes(run: Callable[[], object]) -> int:
    """Return the size of the memory that autograd keeps, each piece counted once."""
    pieces: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        pieces[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        run()
    return sum(pieces.values())


def test_second_derivatives_keep_nothing_in_the_forward_pass():
    """Of an operand that the gradient does not read, only one number is kept."""
    u, c0 = torch.randn(50, 2, 8, requires_grad=True), torch.zeros(2, 8)
    f = torch.tensor(0.5)
    states = u.numel() * u.element_size()
    assert _saved_bytes(lambda: gated_scan(u, f, c0)) == states + 4 + 4 * c0.numel() + 4
    z = torch.randn(50, 2, 4, 8, requires_grad=True)
    weight = torch.randn(4, 8, 8)
    kept = 4 * (z.numel() + 2 * u.numel() + weight.numel() + c0.numel() + 1)
    assert _saved_bytes(lambda: rkm_scan(z, weight, c0, c0, cell=RKM_LSTM)) == kept


def test_an_operand_with_saturated_gates_has_finite_second_derivatives():
    """σ and tanh are rounded to 0 and 1 there, which have no finite inverse."""
    z = torch.tensor([-200.0, -20.0, 0.5, 20.0, 200.0]).expand(3, 1, 4, 5).clone().requires_grad_()
    h0 = torch.zeros(1, 5)
    for cell in (RKM_LSTM, LSTM):
        found = []
        for scan in (rkm_scan, functional.rkm_scan):
            results = scan(z, torch.zeros(4, 5, 5), h0, h0, cell=cell)
            (first,) = gradients(results, {"z": z}, create_graph=True).values()
            found.append(torch.autograd.grad(first.square().sum(), z)[0])
        assert found[0].isfinite().all()
        torch.testing.assert_close(*found)


# Operators as scans of their definitions, compared with the operators.


DECOMPOSITIONS = {
    getattr(torch.ops.representer, name).default: of_onnx(op) for name, op in OPS.items()
}
RECURRENT = ("rkm_scan", "string_scan", "gated_scan", "kbrn_scan")
OTHERS = ("kernel_activation", "separable_convolution", "walk_aggregate", "walk_rounds")


class Recorder(torch.overrides.TorchFunctionMode):
    """Collects the calls of the operators."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], Any]] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in DECOMPOSITIONS:
            self.calls.append((func, args, result))
        return result


@pytest.mark.parametrize("name", [*RECURRENT, *OTHERS])
def test_an_operator_and_its_decomposition_agree(name: str):
    op, compared = OPS[name], 0
    with torch.no_grad():
        for sample in samples_of(op)[::3]:
            tensors = sample.make(torch.float64)
            if name == "rkm_scan":  # required, though some cells have none
                tensors.setdefault("weight", None)
            with Recorder() as recorder:
                op.function(**tensors, **sample.options)
            for operator, arguments, wanted in recorder.calls:
                found = DECOMPOSITIONS[operator](*arguments)
                if isinstance(wanted, tuple):  # without what is kept for the gradient
                    kept = [x.numel() > 0 for x in found]
                    found, wanted = (tuple(compress(x, kept)) for x in (found, wanted))
                torch.testing.assert_close(found, wanted)
                compared += 1
    assert compared
