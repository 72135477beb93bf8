"""Describe the environment that the results of a run depend on besides its settings."""

from __future__ import annotations

import os
import platform

import torch

from representer import __version__

_VARIABLES = ("MKL_CBWR", "OMP_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG")


def fingerprint(device: torch.device | str = "cpu", processes: int = 1) -> dict[str, str]:
    """Describe the environment. Runs with equal descriptions are bit-identical.

    Args:
        device: The device of the model.
        processes: The number of processes.
    """
    device = torch.device(device)
    is_cuda = device.type == "cuda"
    return {
        "representer": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "device": torch.cuda.get_device_name(device) if is_cuda else device.type,
        "processes": str(processes),
        **{name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return the changes, for example ``["threads 2 → 4"]``."""
    names = [*before, *(name for name in now if name not in before)]
    return [
        f"{name} {before.get(name, '(unset)')} → {now.get(name, '(unset)')}"
        for name in names
        if before.get(name) != now.get(name)
    ]
