"""Triton kernels under Triton's interpreter, in a process of their own: ``TRITON_INTERPRET=1``.

Every result and gradient is compared with the definition in float64. Memory is filled with NaN, so
that a kernel that skips an entry is seen. bfloat16 is left out: the interpreter's is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch
from torch.utils import deterministic

from representer.ops import OPS, Op, Sample

from .cases import arguments, call, define, few_samples, gradients, make

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 1e-2}  # of the largest entry
SMALL = 0.2  # a single number may be a sum of many that happen to cancel


def check(op: Op, sample: Sample, dtype: torch.dtype) -> Iterator[str]:
    """Yield the results and gradients of a sample that differ from the definition."""
    tensors = make(sample, dtype)
    results = call(op, "triton", sample, tensors)
    exact = {
        name: x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x
        for name, x in tensors.items()
    }
    expected = define(op, sample, exact)
    found, wanted = gradients(results, tensors), gradients(expected, exact)
    pairs = {f"result {i}": pair for i, pair in enumerate(zip(results, expected, strict=True))}
    pairs |= {f"gradient of {name}": (x, wanted[name]) for name, x in found.items()}
    for name, (ours, exactly) in pairs.items():
        least = 1e-3 if exactly.numel() > 1 else SMALL
        largest = max(exactly.abs().max().item(), least)
        difference = (ours.double() - exactly).abs().max().item()
        if ours.dtype != dtype or not difference <= TOLERANCE[dtype] * largest:
            yield f"{op.name}, {sample.name}, {dtype}: {name} is off by {difference} of {largest}"


def takes(op: Op, sample: Sample) -> bool:
    """Return True if the kernels take a sample."""
    assert op.table is not None
    given = arguments(op, sample, sample.make(torch.float32))
    fields = op.table.operands._fields
    p = op.table.operands(**{name: given.get(name) for name in fields})
    return not op.backends["triton"].refuses(p)


def few(op: Op) -> list[Sample]:
    """Return three of the samples in which all options occur."""
    samples = [sample for sample in few_samples(op) if takes(op, sample)]
    return samples[:: -(-len(samples) // 3)]


def run(all_of_them: bool) -> tuple[int, list[str]]:
    """Return the number of samples checked, and the failures."""
    checked, failures = 0, []
    for op in (op for op in OPS.values() if "triton" in op.backends):
        samples = [s for s in op.samples() if takes(op, s)] if all_of_them else few(op)
        for i, sample in enumerate(samples):
            for dtype in TOLERANCE if all_of_them else (torch.float32, torch.float16)[i % 2 :][:1]:
                failures += check(op, sample, dtype)
                checked += 1
    return checked, failures


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    assert deterministic.fill_uninitialized_memory
    checked, failures = run("--all" in sys.argv)
    print(*failures, sep="\n", file=sys.stderr)
    print(checked)
    sys.exit(bool(failures))
