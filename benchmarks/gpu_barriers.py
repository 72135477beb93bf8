# type: ignore  (kernels are compiled by Triton, whose types are not those of Python)
"""The costs of a step that programs take together: waiting for each other, and reading h from L2.

The kernel with recurrent weights on the chip pays both in each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl

from gpu_clocks import eager_seconds
from representer.ops.rkm_scan.stationary import _SPINS, wait

PROGRAMS, KIB = (5, 19, 41, 72, 132), (0, 16, 64, 256)
STEPS = 2000


@triton.jit
def _wait_by_loads(counter, target, SPINS: tl.constexpr):
    """Wait as ``wait`` does, but read the counter instead of adding 0 to it."""
    tl.debug_barrier()
    tl.atomic_add(counter, 1, sem="release", scope="gpu")
    spins = 0
    while (tl.load(counter, volatile=True) < target) & (spins < SPINS):
        spins += 1
    tl.atomic_add(counter, 0, sem="acquire", scope="gpu")
    tl.debug_barrier()


@triton.jit
def _steps(counter, x, out, steps, chunks, LOADS: tl.constexpr, SPINS: tl.constexpr):
    at, total = tl.arange(0, 1024), tl.zeros((1024,), tl.float32)
    for i in range(steps):
        for j in range(chunks):
            total += tl.load(x + j * 1024 + at, cache_modifier=".cg")
        target = (i + 1) * tl.num_programs(0)
        if LOADS:
            _wait_by_loads(counter, target, SPINS)
        else:
            wait(counter, target, SPINS)
    tl.store(out + tl.program_id(0) * 1024 + at, total)


def ladder(steps: int = STEPS) -> Iterator[dict[str, Any]]:
    """Yield the microseconds of a step by programs, way of waiting, and KiB that each reads."""
    x, out = torch.zeros(1 << 18, device="cuda"), torch.empty(max(PROGRAMS) * 1024, device="cuda")
    for programs in PROGRAMS:
        for by_loads, kib in ((False, 0), (True, 0), *((False, kib) for kib in KIB[1:])):

            def call(programs: int = programs, by_loads: bool = by_loads, kib: int = kib) -> None:
                counter = torch.zeros(1, dtype=torch.int32, device="cuda")
                _steps[(programs,)](
                    counter, x, out, steps, kib // 4, LOADS=by_loads, SPINS=_SPINS, num_warps=4,
                    launch_cooperative_grid=True,
                )  # fmt: skip

            call()
            seconds = min(eager_seconds(call, 3) for _ in range(3))
            yield {
                "programs": programs, "waits_by": "loads" if by_loads else "atomics",
                "read_kib": kib, "step_us": 1e6 * seconds / steps,
            }  # fmt: skip
