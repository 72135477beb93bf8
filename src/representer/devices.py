"""Devices by name: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``; importing needs no torch."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

from representer.errors import ArgumentError

if TYPE_CHECKING:
    import torch

EXPECTED = "auto, cpu, cuda, cuda:N or mps"
_NAME = re.compile(r"auto|cpu|mps|cuda(:[0-9]{1,3})?", re.ASCII)


def is_device_name(name: object) -> bool:
    """Return True if a value names a device, present or not."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def require_device(name: str, processes: int = 1) -> torch.device:
    """Return the device of a name; ``auto`` is a CUDA device if there is one, else the CPU.

    Args:
        name: The name.
        processes: Number of training processes; each of several takes a CUDA device of its own.

    Raises:
        ArgumentError: It names no device of this machine, or one device for several processes.
    """
    import torch

    if not is_device_name(name):
        raise ArgumentError("device", name, EXPECTED)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kind, _, number = name.partition(":")
    if kind == "auto":
        return torch.device("cuda" if count else "cpu")
    if kind == "cuda" and int(number or 0) >= count:
        present = f"one of the {count} CUDA devices of this machine" if count else "auto or cpu"
        hint = "" if count else "This PyTorch finds no CUDA device; see representer doctor."
        raise ArgumentError("device", name, present, hint=hint)
    if kind == "mps" and not torch.backends.mps.is_available():
        hint = "This PyTorch finds no Apple GPU."
        raise ArgumentError("device", name, "auto or cpu", hint=hint)
    if processes > 1 and (number or kind == "mps"):
        hint = "Each process takes a CUDA device of its own."
        raise ArgumentError("device", name, "auto, cuda or cpu in several processes", hint=hint)
    return torch.device(name)


def processor() -> str:
    """Return the name of the processor, if the system provides it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
