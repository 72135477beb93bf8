"""Recurrent cells by name, as in configurations and on the command line, and the table of them."""

from __future__ import annotations

import difflib
import inspect
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from representer import nn
from representer.errors import ArgumentError
from representer.functional import Cell, ngram_product_definition, rkm_scan
from representer.nn import TABLE1
from representer.nn.recurrent.cells import SyncNet
from representer.nn.recurrent.machine import RecurrentKernelMachine


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


# Each cell beside its recurrence: compare a layer with its recurrence on a small random sequence.

TIME, BATCH, FEATURES, UNITS, LENGTH = 6, 2, 3, 4, 3


def deviation(name: str) -> float:
    """Return the largest difference between a cell of L19 Table 1 and ``functional``.

    Both run in float64.
    """
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = TABLE1[name](FEATURES, UNITS, filter_length=LENGTH, layer_norm=True).double()
    x = torch.randn(TIME, BATCH, FEATURES, generator=generator, dtype=torch.float64)
    norm = layer.cell_norm()
    assert norm is not None
    with torch.no_grad():
        computed, _ = layer(x)
        expected, _, _ = rkm_scan(
            _pre_activations(layer, x),
            torch.stack(list(layer.recurrent().values())) if layer.recurrent() else None,
            x.new_zeros(BATCH, UNITS), x.new_zeros(BATCH, UNITS), cell=layer.cell,
            static=layer.static_gates(), norm=torch.stack([norm.weight, norm.bias]),
        )  # fmt: skip
    return float((computed - expected).abs().max())


def _pre_activations(layer: RecurrentKernelMachine, x: Tensor) -> Tensor:
    """Return z ``(T, B, gates, units)``, the n-gram products plus biases."""
    biases = layer.biases()
    gates = [
        ngram_product_definition(x, filters) + biases.get(gate, 0.0)
        for gate, filters in layer.filters().items()
    ]
    return torch.stack(gates, dim=-2)


# L19 Table 1 computed: equations from the specs, parameters counted from built layers.


def cells_table(input_size: int, hidden_size: int, filter_length: int) -> str:
    """Return the table as text.

    Raises:
        ArgumentError: If a size is not a positive integer.
    """
    options = {layer: key for key, layer in CELLS.items()}
    rows = [("--cell", "name", "memory cell", "output", "parameters", "count")]
    for name, layer in TABLE1.items():
        built = layer(input_size, hidden_size, bias=False, filter_length=filter_length)
        count = sum(p.numel() for p in built.parameters())
        cell = built.cell
        equations = memory_equation(cell), output_equation(cell)
        rows.append((options[layer], name, *equations, formula(cell), f"{count:,}"))
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        blanks = [" " * (w - _width(c)) for c, w in zip(row, widths, strict=True)]
        left = [c + blank for c, blank in zip(row[:-1], blanks, strict=False)]
        lines.append("  ".join([*left, blanks[-1] + row[-1]]))
    sizes = f"m = {input_size} inputs, d = {hidden_size} units, n = {filter_length}-gram filters"
    note = "Counted: filters and recurrent matrices, as in L19 Table 1; no biases, no layer norm."
    others = ", ".join(key for key, layer in CELLS.items() if layer not in TABLE1.values())
    more = f"Other values of --cell: {others}."
    return "\n".join([sizes, "", lines[0], "-" * len(lines[0]), *lines[1:], "", note, more])


def memory_equation(cell: Cell) -> str:
    """Return the update of the memory cell in the paper's letters."""
    candidate = "c̃_t" if cell.candidate == "identity" else f"{cell.candidate}(c̃_t)"
    written = {
        "dynamic": f"η_t ⊙ {candidate}",
        "coupled": f"(1 − f_t) ⊙ {candidate}",
        "static": f"σ_i² {candidate}",
    }[cell.input_gate]
    before = {"cell": "c_{t−1}", "output": "h_{t−1}", "expm1": "(exp(c_{t−1}) − 1)"}[cell.memory]
    kept = {"dynamic": f" + f_t ⊙ {before}", "static": f" + σ_f² {before}", "none": ""}
    return f"c_t = {written}{kept[cell.forget_gate]}"


def output_equation(cell: Cell) -> str:
    """Return the emission in the paper's letters."""
    emitted = "c_t" if cell.output == "identity" else f"{cell.output}(c_t)"
    return f"h_t = o_t ⊙ {emitted}" if cell.output_gate else f"h_t = {emitted}"


def formula(cell: Cell) -> str:
    """Return the number of parameters as a formula in m, d and n."""
    gates, recurrent = len(cell.gates), len(cell.recurrent_gates)
    if gates == recurrent:
        return f"(nm + d)({_times_d(gates)})"
    if not recurrent:
        return f"(nm)({_times_d(gates)})"
    return f"(nm)({_times_d(gates)}) + d({_times_d(recurrent)})"


def _width(text: str) -> int:
    """Return the columns that a text takes up: the tilde of c̃ has none of its own."""
    return sum(not unicodedata.combining(letter) for letter in text)


def _times_d(factor: int) -> str:
    return "d" if factor == 1 else f"{factor}d"
