"""torch.vmap over any op equals the op on each entry. Generated from ``OPS``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ops.samples import Sample
from ops.trials import arguments, gradients, make, several
from representer.nn import RKMLSTM
from representer.ops import Op

from .cases import RecordedCalls, batch_axis, call, every, sequence_samples

SIZE = 3


def stacked(tensor: Tensor, dim: int) -> Tensor:
    """Return three tensors, different where they are numbers and not whole ones."""
    factors = (1.0, 0.5, 0.8) if tensor.is_floating_point() else (1, 1, 1)
    stack = torch.stack([tensor.detach() * factor for factor in factors], dim)
    return stack.requires_grad_(tensor.requires_grad)


def has_batch(op: Op, name: str, tensor: Tensor) -> bool:
    axis = batch_axis(op, name)
    return axis is not None and tensor.dim() > axis


def without_batch(op: Op, sample: Sample) -> set[str]:
    """Return the names of the operands of a sample that have no batch, a weight or a decay, say."""
    tensors = make(sample, torch.float64)
    return {name for name, tensor in tensors.items() if not has_batch(op, name, tensor)}


def runs(sample: Sample) -> int:
    """Return how often the operator must run: once an entry where a batch's sequences meet."""
    return SIZE if sample.options.get("batch_statistics") else 1


def over_each(op: Op, backend: str, sample: Sample, tensors: dict[str, Tensor], dims: dict):
    each = []
    for i in range(SIZE):
        entry = {n: t if dims[n] is None else t.select(dims[n], i) for n, t in tensors.items()}
        each.append(call(op, backend, sample, entry))
    return [torch.stack(parts) for parts in zip(*each, strict=True)]


def mapped(op: Op, backend: str, sample: Sample, tensors: dict[str, Tensor], dims: dict):
    def of(values: dict[str, Tensor]) -> tuple[Tensor, ...]:
        return several(op.function(**arguments(op, sample, values), backend=backend))

    return torch.vmap(of, ({n: dims[n] for n in tensors},))(tensors)


def compare(op: Op, backend: str, sample: Sample, names: set[str], dim: int) -> int:
    """Compare both ways to map over some tensors, and return how often the operator ran."""
    tensors = make(sample, torch.float64)
    call(op, backend, sample, tensors)  # skips a backend of another device
    dims = {name: dim if name in names else None for name in tensors}
    tensors = {n: t if dims[n] is None else stacked(t, dim) for n, t in tensors.items()}
    expected = over_each(op, backend, sample, tensors, dims)
    with RecordedCalls() as calls:
        found = mapped(op, backend, sample, tensors, dims)
    torch.testing.assert_close(list(found), expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(
        gradients(found, tensors), gradients(tuple(expected), tensors), rtol=1e-9, atol=1e-11
    )
    return len(calls.made)


@every(sequence_samples)
@pytest.mark.parametrize("dim", [0, 1])
def test_vmap_over_operands_with_a_batch_runs_the_operator_once(
    op: Op, backend: str, sample: Sample, dim: int
):
    names = set(make(sample, torch.float64)) - without_batch(op, sample)
    assert compare(op, backend, sample, names - {"lengths"} if dim else names, dim) == runs(sample)


def test_layers_under_vmap_have_values_and_gradients_of_their_own():
    members = [RKMLSTM(3, 4, dtype=torch.float64) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(members)  # pyright: ignore[reportArgumentType]
    x = torch.randn(5, 2, 3, dtype=torch.float64)

    def run(parameters: Any, buffers: Any) -> Tensor:
        return torch.func.functional_call(members[0], (parameters, buffers), x)[0]

    found = torch.vmap(run)(parameters, buffers)
    for member, output in zip(members, found, strict=True):
        torch.testing.assert_close(output, member(x)[0])
    (wanted,) = torch.autograd.grad(
        members[2](x)[0].sum(), members[2].get_parameter("weight_hh_l0")
    )
    (slopes,) = torch.autograd.grad(found[2].sum(), parameters["weight_hh_l0"])
    torch.testing.assert_close(slopes[2], wanted)
    assert not slopes[:2].any()
