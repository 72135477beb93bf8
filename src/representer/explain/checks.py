"""Reading the arguments of an explanation, with messages for what does not fit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.errors import ArgumentError, KindError, ShapeError
from representer.nn.recurrent.inputs import check_input
from representer.nn.recurrent.sequence_layer import SequenceLayer


def check_sequence(layer: SequenceLayer, input: Any) -> Tensor:
    """Return the input, which must be one sequence of the layer.

    Raises:
        KindError: If it is no tensor, or of another dtype or device.
        ShapeError: If it is not one sequence.
        ArgumentError: If a step is not finite, or the layer has a stride.
    """
    if layer.stride > 1:
        raise ArgumentError("layer.stride", layer.stride, "1 to be explained step by step")
    if not isinstance(input, Tensor):
        raise KindError("input", type(input).__name__, f"a tensor (time, {layer.input_size})")
    if input.dim() != 2:
        raise ShapeError(
            "input",
            input.shape,
            f"one sequence (time, {layer.input_size})",
            hint="Explain the sequences of a batch one by one.",
        )
    check_input(input, layer.input_size, False, like=next(layer.parameters()))
    return check_finite("input", input)


def check_finite(name: str, rows: Tensor) -> Tensor:
    """Return rows of numbers.

    Raises:
        ArgumentError: If one holds NaN or infinity.
    """
    wrong = ~torch.isfinite(rows).flatten(1).all(1)
    if wrong.any():
        first = int(wrong.nonzero()[0])
        raise ArgumentError(f"{name}[{first}]", rows[first].tolist(), "finite numbers")
    return rows


def check_index(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return a whole number from ``low`` to ``high``.

    Raises:
        ArgumentError: If it is none.
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole and value >= low and (high is None or value <= high):
        return value
    wanted = f"from {low} on" if high is None else f"from {low} to {high}"
    raise ArgumentError(name, value, f"a whole number {wanted}")
