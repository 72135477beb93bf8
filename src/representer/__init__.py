"""Networks derived from kernels: each unit compares its input with a learned reference object.

``nn``, ``functional`` and ``ops`` need only torch. Submodules are imported on first access, so the
command line prints ``--help`` without importing torch.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from representer import (
        data,
        estimators,
        explain,
        export,
        functional,
        hub,
        kernels,
        models,
        nn,
        ops,
        tasks,
    )

__version__ = "0.2.0"
__all__ = [
    "data", "estimators", "explain", "export", "functional", "hub", "kernels", "models", "nn",
    "ops", "tasks",
]  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f"representer.{name}")
    raise AttributeError(f"module 'representer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
