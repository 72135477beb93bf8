"""Triton backends of the ops: where they run, without importing Triton.

The kernels of an op are in its own ``triton.py``, imported by its first call. With
``TRITON_INTERPRET=1`` Triton interprets them on the CPU; so they are tested without a GPU.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from representer.ops.op import Backend

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def ceil_div(a: int, b: int) -> int:
    """Return a / b, rounded up; Triton's takes ten times as long outside of a kernel."""
    return -(-a // b)


def power_of_2(n: int) -> int:
    """Return the smallest power of 2 that is at least n."""
    return 1 << (n - 1).bit_length() if n > 0 else 0


def _missing() -> str:
    if not (torch.version.cuda or torch.version.hip or IS_INTERPRETED):
        return "this PyTorch was built without CUDA"
    if find_spec("triton") is None:
        return "Triton is not installed: pip install 'representer[gpu]'"
    return ""


MISSING = _missing()


def refuses(p: Any) -> str:
    """Return why no kernel takes the dtype of the first operand, or "" if they take it."""
    return "" if p[0].dtype in DTYPES else f"takes 16 to 64 bits, not {p[0].dtype}"


def backend(op: str, refuses: Callable[[Any], str] = refuses) -> Backend:
    """Return the Triton backend of an op: ``forward`` and ``backward`` in its ``triton.py``.

    ``describe`` there says which of several kernels runs a call; it may be missing.
    """

    def launchers() -> Any:
        return importlib.import_module(f"representer.ops.{op}.triton")

    def forward(p: Any, new: Any) -> Any:
        with _on_device_of(p[0]):
            return launchers().forward(p, new)

    def backward(p: Any, kept: Any, grad: Any, requested: Any) -> dict[str, Tensor]:
        with _on_device_of(p[0]):
            return launchers().backward(p, kept, grad, requested)

    def describe(p: Any) -> str:
        return getattr(launchers(), "describe", lambda p: "")(p)

    devices = ("cpu", "cuda") if IS_INTERPRETED else ("cuda",)
    return Backend("triton", devices, forward, backward, MISSING, refuses, describe)


def _on_device_of(x: Tensor) -> Any:
    """Return a context in which kernels are launched where a tensor is."""
    return torch.cuda.device_of(x)  # does nothing for tensors on the CPU
