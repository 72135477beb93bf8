"""Checks of the kernels on a GPU: results and gradients beside the definitions in float64."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gpu_cases import large_samples
from representer.errors import BackendError
from representer.ops import OPS, Op, Sample

TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}  # of the largest entry


@dataclass
class Checked:
    """Distances of samples from their definitions, and what was left out or failed."""

    worst: float = 0.0
    beyond: int = 0  # samples that are off by more than is allowed
    samples: int = 0
    differing: int = 0
    notes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Checked) -> None:
        """Add other samples."""
        self.worst = max(self.worst, other.worst)
        self.beyond += other.beyond
        self.samples += other.samples
        self.differing += other.differing
        self.notes += other.notes


def deviation(op: Op, sample: Sample, dtype: torch.dtype, device: str) -> tuple[float, float, bool]:
    """Return the largest difference from the definition in float64, of results and gradients.

    It is a share of the largest entry. The second value is what is allowed: more where the
    reference backend, on the CPU and in the same dtype, is off by more than half of that, as in
    recurrences that amplify the rounding to 16 bits. The third says if a second run gives the same
    bits.
    """

    def evaluate(function: Callable[..., Any], tensors: dict[str, Tensor], **more: Any) -> Any:
        leaves = {
            name: x.detach().clone().requires_grad_(x.is_floating_point())
            for name, x in tensors.items()
        }
        marked = [
            x for name, x in leaves.items() if x.requires_grad and name not in sample.constants
        ]
        given = dict.fromkeys(needed) | leaves | sample.options
        results = function(**given, **more)
        results = (results,) if isinstance(results, Tensor) else tuple(results)[:count]
        total = sum(r.sum() for r in results)
        gradients = torch.autograd.grad(total, marked, materialize_grads=True)
        return [x.detach() for x in (*results, *gradients)]

    parameters = inspect.signature(op.function).parameters.values()
    needed = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    count = len(op.table.graded) if op.table else None  # a definition may return more
    made = sample.make(dtype)
    exact = {name: x.double() if x.is_floating_point() else x for name, x in made.items()}
    backend = {"backend": "triton" if device == "cuda" else None}
    placed = {name: x.to(device) for name, x in made.items()}
    ours, again = (evaluate(op.function, placed, **backend) for _ in range(2))
    expected = evaluate(op.definition, exact)
    allowed = TOLERANCE[dtype]
    if dtype.itemsize == 2:
        rounded = evaluate(op.function, made, backend="reference")
        allowed = max(allowed, 2 * _largest_share(rounded, expected))
    return _largest_share(ours, expected), allowed, all(map(torch.equal, ours, again))


def _largest_share(found: list[Tensor], expected: list[Tensor]) -> float:
    worst = 0.0
    for x, y in zip(found, expected, strict=True):
        share = (x.double().cpu() - y).abs().max() / y.abs().max().clamp_min(0.1)
        worst = max(worst, share.item() if share.isfinite() else float("inf"))
    return worst


def check_part(name: str, dtype: torch.dtype, device: str, part: slice, end: float) -> Checked:
    """Compare some samples of an op with its definition, up to a time of ``time.monotonic``."""
    op, checked = OPS[name], Checked()
    for sample in [*large_samples(name), *op.samples()][part]:
        if time.monotonic() > end:
            break
        try:
            found, allowed, is_same = deviation(op, sample, dtype, device)
        except BackendError as error:  # the kernels do not take it
            checked.notes.append({"section": "skipped", "sample": sample.name, "op": name,
                                  "reason": str(error)})  # fmt: skip
            continue
        except Exception as error:  # one that does not compile, say: the others are checked
            found, allowed, is_same = float("inf"), 0.0, False
            checked.notes.append({"section": "failed", "sample": sample.name, "op": name,
                                  "reason": repr(error)[:400]})  # fmt: skip
        checked.worst, checked.samples = max(checked.worst, found), checked.samples + 1
        checked.beyond += found > allowed
        checked.differing += not is_same
    return checked
