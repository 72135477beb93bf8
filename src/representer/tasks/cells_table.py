"""L19 Table 1 computed: equations from the specs, parameters counted from built layers."""

from __future__ import annotations

import unicodedata

from representer.functional import Cell
from representer.models.cells import CELLS
from representer.nn import TABLE1


def cells_table(input_size: int, hidden_size: int, filter_length: int) -> str:
    """Return the table as text.

    Args:
        input_size: m, numbers per input.
        hidden_size: d, units.
        filter_length: n of the n-gram filters.

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
