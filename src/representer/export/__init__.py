"""Export of layers and trained models: ONNX, programs of torch.export, weights of 8 bits."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from representer.export.c_code import CFile, step_program, to_c
from representer.export.programs import ExportError, Parity, lowered, to_int8, to_onnx, to_torch

if TYPE_CHECKING:
    from representer.export.runs import ExportedFile, ExportedRun, export_run, scores

_OF_RUNS = ("ExportedFile", "ExportedRun", "export_run", "scores")  # they need the extra "train"
__all__ = [
    "CFile", "ExportError", "ExportedFile", "ExportedRun", "Parity", "export_run", "lowered",
    "scores", "step_program", "to_c", "to_int8", "to_onnx", "to_torch",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _OF_RUNS:
        return getattr(importlib.import_module("representer.export.runs"), name)
    raise AttributeError(f"module 'representer.export' has no attribute {name!r}")


__dir__ = __all__.copy  # what tab completion shows
