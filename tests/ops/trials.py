"""Calls of an op on its samples, with their gradients, for tests and benchmarks."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ops.samples import Sample, samples_of
from representer.ops import core
from representer.ops.op import Op


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Compute with a number of threads inside the block, even if there are fewer cores."""
    before, most = torch.get_num_threads(), core.MOST_THREADS
    torch.set_num_threads(number)
    core.MOST_THREADS = max(number, most)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        core.MOST_THREADS = most


def few_samples(op: Op) -> list[Sample]:
    """Return samples in whose names each word occurs: each cell, size and option, full ones first.

    ``rkm_lstm-norm-hold-lengths-reverse`` counts for ``rkm_lstm-norm`` too.
    """
    chosen: list[Sample] = []
    met: set[str] = set()
    for sample in reversed(samples_of(op)):
        words = set(sample.name.split("-"))
        if words - met:
            chosen.append(sample)
            met |= words
    return chosen


def make(sample: Sample, dtype: torch.dtype, device: str = "cpu") -> dict[str, Tensor]:
    """Return the tensors of a sample, those that take part in gradients marked."""
    tensors = {name: tensor.to(device) for name, tensor in sample.make(dtype).items()}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and name not in sample.constants:
            tensor.requires_grad_()
    return tensors


def arguments(op: Op, sample: Sample, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Return what the op is called with: None for operands that the sample does not have."""
    parameters = inspect.signature(op.function).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty]
    return {**dict.fromkeys(needed), **tensors, **sample.options}


def several(results: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the results of an op, one or several, as several."""
    return (results,) if isinstance(results, Tensor) else results


def public_results(op: Op) -> int:
    """Return the number of results that have gradients."""
    assert op.table is not None
    return len(op.table.graded)


def define(op: Op, sample: Sample, tensors: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """Evaluate the definition."""
    return several(op.definition(**arguments(op, sample, tensors)))[: public_results(op)]


def gradients(
    results: tuple[Tensor, ...], tensors: dict[str, Tensor], **more: Any
) -> dict[str, Tensor]:
    """Return the gradients of the marked tensors for fixed random gradients of all results."""
    generator = torch.Generator().manual_seed(0)
    cotangents = [
        torch.randn(r.shape, generator=generator, dtype=torch.float64).to(r) for r in results
    ]
    marked = {name: tensor for name, tensor in tensors.items() if tensor.requires_grad}
    found = torch.autograd.grad(
        results, list(marked.values()), cotangents, materialize_grads=True, **more
    )
    return dict(zip(marked, found, strict=True))
