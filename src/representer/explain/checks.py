"""Argument checks of the explanations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.errors import ArgumentError, KindError, ShapeError
from representer.nn.recurrent.sequence_layer import SequenceLayer, check_input, check_lengths


def check_sequence(layer: SequenceLayer, input: Any, *, is_stride_allowed: bool = False) -> Tensor:
    """Return the input if it is one sequence for the layer."""
    if layer.stride > 1 and not is_stride_allowed:
        raise ArgumentError("layer.stride", layer.stride, "1 for an explanation")
    if not isinstance(input, Tensor):
        raise KindError("input", type(input).__name__, f"a tensor (time, {layer.input_size})")
    if input.dim() != 2:
        raise ShapeError(
            "input", input.shape, f"one sequence (time, {layer.input_size})",
            hint="Explain the sequences of a batch one by one.",
        )  # fmt: skip
    check_input(input, layer.input_size, False, like=next(layer.parameters()))
    check_lengths(input[:, None], None, layer.stride)
    return check_finite("input", input)


def check_finite(name: str, rows: Tensor) -> Tensor:
    """Return the rows if all their values are finite."""
    is_invalid = ~torch.isfinite(rows).flatten(1).all(1)
    if is_invalid.any():
        first = int(is_invalid.nonzero()[0])
        raise ArgumentError(f"{name}[{first}]", rows[first].tolist(), "finite numbers")
    return rows


def refuse_layer(layer: Any, reasons: dict[str, bool]) -> None:
    """Raise the first reason that holds against a decomposition of the output of one layer."""
    reasons |= {
        "It has several layers: use stack_readout.": layer.num_layers > 1,
        "It has two directions: use stack_readout.": layer.bidirectional,
    }
    expected = "one whose output is a sum over the steps"
    for reason in (reason for reason, holds in reasons.items() if holds):
        raise KindError("layer", repr(layer), expected, hint=reason)
