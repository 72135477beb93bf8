"""Recurrent cells by name, as in configurations and on the command line."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from representer import nn
from representer.errors import ArgumentError
from representer.nn.recurrent.cells import SyncNet


def _torch_lstm(
    input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
    batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
) -> torch.nn.LSTM:  # fmt: skip
    return torch.nn.LSTM(
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional
    )


def _key(row: str) -> str:
    """Return the name of a row of Table 1 for configurations and the command line."""
    return row.lower().replace(" w/ o_t", "-gated").replace(" ", "-")


Cells = Mapping[str, Callable[..., torch.nn.Module]]
CELLS: dict[str, Callable[..., torch.nn.Module]] = {
    **{_key(row): layer for row, layer in nn.TABLE1.items()},
    "ran": nn.RAN,
    "rkm": nn.RKM,
    "string-kernel": nn.StringKernelRNN,
    "torch-lstm": _torch_lstm,  # a baseline
}
SIGNAL_CELLS = CELLS | {"syncnet": SyncNet}  # which reads samples after a step, too
TITLES: dict[str, str] = {
    **{_key(row): row for row in nn.TABLE1},
    "ran": "RAN",
    "rkm": "RKM",
    "string-kernel": "String Kernel",
    "syncnet": "SyncNet",
    "torch-lstm": "torch.nn.LSTM",
}
"""Names of the cells in tables and reports."""

# Values that are valid for cells without the option: the defaults of the cells that have it, of the
# first of several; but a decay is that of the configurations.
_DEFAULTS: dict[str, Any] = {
    name: parameter.default
    for cell in reversed(CELLS.values())
    for name, parameter in inspect.signature(cell).parameters.items()
} | {"decay": 0.5}
# Cells without this option have a single one.
_FREE = "initialization"


def resolve_cell(name: str, cells: Cells = CELLS) -> Callable[..., torch.nn.Module]:
    """Return the constructor of a cell.

    Args:
        name: A key of `cells`.
        cells: The cells to choose from.

    Raises:
        ArgumentError: If there is no such cell; the message suggests the closest name.
    """
    if name in cells:
        return cells[name]
    normalized = name.lower().replace("_", "-").replace(" ", "-") if isinstance(name, str) else ""
    close = difflib.get_close_matches(normalized, cells, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else ""
    raise ArgumentError("cell", name, f"one of {', '.join(cells)}", hint=hint)


def build_cell(
    name: str,
    input_size: int,
    hidden_size: int,
    options: Mapping[str, Any],
    *,
    batch_first: bool = True,
    cells: Cells = CELLS,
) -> torch.nn.Module:
    """Build a layer of a cell.

    Args:
        name: A key of `cells`.
        input_size: Features of one step.
        hidden_size: Number of units.
        options: Any of ``num_layers, dropout, bidirectional, filter_length, dilation, filters,
            stride, free_phase, sampling_rate, layer_norm, forget_bias, candidate_bias,
            learn_static_gates, order, combine, decay, normalized, readout, activation, highway,
            variational_dropout, hidden_dropout, initialization``.
        batch_first: Input and output are ``(B, T, …)``.
        cells: The cells to choose from.

    Raises:
        ArgumentError: If the cell is unknown, or has no such option.
    """
    constructor = resolve_cell(name, cells)
    accepted = inspect.signature(constructor).parameters
    chosen = {key: value for key, value in options.items() if key in accepted}
    for key, value in options.items():
        if key not in accepted and key != _FREE and value != _DEFAULTS[key]:
            raise ArgumentError(
                key, value, f"{_DEFAULTS[key]!r}", hint=f"The cell {name!r} has no such option."
            )
    return constructor(input_size, hidden_size, batch_first=batch_first, **chosen)
