"""The machine and its limits, measured by the probes of the core."""

from __future__ import annotations

import ctypes
import os
import shlex
import sys
import time
from dataclasses import dataclass

import torch

from representer.ops import core

# variables that keep the core, and the libraries inside torch, to an instruction set
SETTINGS = (
    core.VARIABLE, "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS",
)  # fmt: skip
ELSEWHERE = {  # options whose values are places of this machine
    "--data": "DIR", "--runs": "DIR", "--splits": "DIR", "--vectors": "FILE", "--aeon": "PYTHON",
    "--pyriemann": "PYTHON", "--pysiglib": "PYTHON",
}  # fmt: skip


class ProbeStruct(ctypes.Structure):
    """Twin of RepresenterProbe in csrc/core.hpp."""

    _fields_ = (
        ("count", ctypes.c_int64), ("threads", ctypes.c_int32), ("a", ctypes.c_void_p),
        ("b", ctypes.c_void_p), ("c", ctypes.c_void_p), ("done", ctypes.POINTER(ctypes.c_double)),
    )  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """Peak rates of one thread of the machine, in float32.

    Attributes:
        arithmetic: Floating-point operations a second, by instruction set.
        memory: Bytes a second, two arrays read and one written, by the size of one array in MiB.
    """

    arithmetic: dict[str, float]
    memory: dict[int, float]

    @property
    def peak(self) -> float:
        """Operations per second with the instruction set in use."""
        return self.arithmetic[core.USABLE[0]]


def measure_limits(repeats: int) -> Limits:
    """Measure the limits by process CPU time."""

    def arithmetic(name: str) -> float:
        start, total = torch.tensor(0.5), torch.tensor(0.0)
        return _best("arithmetic", name, 1_000_000, (start, start, total), repeats)

    def memory(size: int) -> float:
        arrays = tuple(torch.ones(size * 2**18) for _ in range(3))
        return _best("memory", core.USABLE[0], arrays[0].numel(), arrays, repeats)

    sets = {name: arithmetic(name) for name in core.USABLE}
    return Limits(sets, {size: memory(size) for size in (4, 25)})


def cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def command() -> str:
    """Return the command of this process, with the variables that choose instruction sets.

    Folders of data and other interpreters, which are elsewhere on another machine, have names.
    """
    chosen = [f"{name}={os.environ[name]}" for name in SETTINGS if name in os.environ]
    before = ["", *sys.argv]
    words = [
        word if word.isdigit() else ELSEWHERE.get(option, word)
        for option, word in zip(before, sys.argv, strict=False)
    ]
    return " ".join([*chosen, "python", shlex.join(words)])


def load() -> str:
    """Return the load average of the last minute."""
    return f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"


def _best(
    operation: str, name: str, count: int, arrays: tuple[torch.Tensor, ...], repeats: int
) -> float:
    """Return the rate of the fastest round: a limit is a maximum."""
    done, best = ctypes.c_double(), 0.0
    probe = ProbeStruct(count, 1, *map(core.pointer, arrays), ctypes.pointer(done))
    with core.instruction_set(name):
        for _ in range(repeats + 1):
            started = time.process_time()
            core.call(operation, torch.float32, probe)
            best = max(best, done.value / (time.process_time() - started))
    return best
