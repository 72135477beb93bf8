"""Process-wide state that a test must leave as it found it.

Warnings filters are missing on purpose: pytest restores them after each test, and third-party
packages add filters of their own when a test imports them.
"""

from __future__ import annotations

import locale
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import torch

_SET_BY_LIBRARIES = {  # by pytest, and by others when they are first imported or used
    "PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR", "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK",
    "RDBASE", "PYTORCH_NVML_BASED_CUDA_CHECK", "_MLFLOW_TELEMETRY_SESSION_ID",
}  # fmt: skip
_SMALLEST = 5e-324  # becomes 0 where the processor flushes denormals


def snapshot() -> dict[str, Any]:
    """Return every piece of process-wide state that tests may not change, by name."""
    environment = {name: text for name, text in os.environ.items() if name not in _SET_BY_LIBRARIES}
    umask = os.umask(0)
    os.umask(umask)
    return {
        "recursion limit": sys.getrecursionlimit(),
        "torch threads": torch.get_num_threads(),
        "torch interop threads": torch.get_num_interop_threads(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast on the CPU": torch.is_autocast_enabled("cpu"),
        "anomaly mode": torch.is_anomaly_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        # as text, since a processor that flushes denormals also compares them as 0
        "denormal numbers": str(_SMALLEST * float(os.getpid() > 0)),
        "os.environ": environment,
        "working directory": Path.cwd(),
        "umask": umask,
        "sys.path": tuple(sys.path),
        "signal handlers": tuple(map(signal.getsignal, (signal.SIGINT, signal.SIGTERM))),
        "root logger": (logging.root.level, tuple(logging.root.handlers)),
        "locale": locale.setlocale(locale.LC_ALL),
        "excepthook": (sys.excepthook, threading.excepthook),
    }


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return a line for each piece of state that differs between two snapshots."""
    changed = [name for name in before if before[name] != after[name]]
    return [f"{name}: {_shown(before[name], after[name])}" for name in changed]


def _shown(before: Any, after: Any) -> str:
    if isinstance(before, dict):  # name the variables, not the whole environment
        names = sorted(key for key in before | after if before.get(key) != after.get(key))
        before, after = ({key: each.get(key) for key in names} for each in (before, after))
    return f"was {before!r}, is {after!r}"
