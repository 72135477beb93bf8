"""Export of layers and trained models: ONNX, programs of torch.export, weights of 8 bits."""

from __future__ import annotations

from representer.export.programs import ExportError, Parity, to_onnx, to_torch

__all__ = ["ExportError", "Parity", "to_onnx", "to_torch"]
