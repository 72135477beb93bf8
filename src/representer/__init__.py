"""Networks derived from kernels: each unit compares its input with a learned reference object.

``nn``, ``functional`` and ``ops`` need torch alone. ``kernels``, ``explain``, ``models``, ``data``
and ``tasks`` load on first access.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from representer import functional, nn, ops

__version__ = "0.1.0"
__all__ = ["data", "explain", "functional", "kernels", "models", "nn", "ops", "tasks"]

_LAZY = {"data", "explain", "kernels", "models", "tasks"}


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        return importlib.import_module(f"representer.{name}")
    raise AttributeError(f"module 'representer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
