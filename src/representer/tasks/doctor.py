"""Check this machine: interpreter, packages, working directory, torch, backends and cells."""

from __future__ import annotations

import platform
import tempfile
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from representer.functional import Cell, ngram_product_definition, rkm_scan
from representer.installed import findings as extensions
from representer.models.cells import CELLS
from representer.nn import TABLE1
from representer.nn.recurrent.machine import RecurrentKernelMachine
from representer.tasks.options import PACKAGES, is_importable, package_version

MARKS = {"ok": "ok  ", "note": "note", "fail": "FAIL"}
TOLERANCE = 1e-10  # float64; layer and recurrence add in different orders


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    status: Literal["ok", "note", "fail"]  # ``"note"`` marks something optional that is missing
    what: str  # name of the checked part
    detail: str  # the result, with the fix where one is needed


def examine() -> list[Finding]:
    """Run all checks; a missing part is a finding, never an exception."""
    findings = [_python(), *_packages(), *_extensions(), _folder()]
    try:
        import torch
    except (ImportError, OSError) as error:
        fix = 'pip install "torch>=2.11"; without a GPU, its CPU build'
        return [*findings, Finding("fail", "torch", f"cannot be imported ({error}). Fix: {fix}")]
    accelerator = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    threads = f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    findings.append(Finding("ok", "torch", f"{torch.__version__}, {threads}, {accelerator}"))
    return [*findings, *_backends(), *_cells()]


def as_data(findings: list[Finding]) -> dict[str, Any]:
    """Return the findings as the object that ``--json`` prints.

    It has ``usable``, false if any check failed, and ``findings``, a list with the fields of
    `Finding`, in the order of the table.
    """
    usable = all(finding.status != "fail" for finding in findings)
    return {"usable": usable, "findings": [asdict(finding) for finding in findings]}


def as_table(findings: list[Finding]) -> str:
    """Return the findings as a table, followed by a one-line summary."""
    width = max(len(f.what) for f in findings)
    lines = [f"{MARKS[f.status]}  {f.what:<{width}}  {f.detail}" for f in findings]
    failed = [f.what for f in findings if f.status == "fail"]
    verdict = f"Not usable yet: {', '.join(failed)}." if failed else "Everything needed works."
    return "\n".join([*lines, "", verdict])


def _python() -> Finding:
    system = f"{platform.system()} {platform.machine()}"
    return Finding("ok", "python", f"{platform.python_version()}, {system}")


def _packages() -> Iterator[Finding]:
    for package in PACKAGES:
        if is_importable(package.module):
            version = package_version(package.name) or "unknown version"
            yield Finding("ok", package.name, f"{version}: {package.purpose}")
        else:
            yield Finding(
                "note",
                package.name,
                f"missing; needed for {package.purpose}. About {package.megabytes} MB: "
                f'pip install "representer[{package.extra}]"',
            )


def _extensions() -> Iterator[Finding]:
    """Yield what other packages add: cells, kernels, tasks and recipes."""
    for what, package, error in extensions():
        if not package.startswith("representer "):
            fix = f"cannot be loaded ({error}). Fix: repair or uninstall the package"
            yield Finding("fail" if error else "ok", what, f"of {package} {error and fix}".strip())


def _folder() -> Finding:
    try:
        with tempfile.TemporaryFile(dir=Path.cwd()):
            return Finding("ok", "this folder", f"{Path.cwd()} is writable")
    except OSError as error:
        fix = "Fix: change to another folder, or set --out."
        return Finding("note", "this folder", f"is not writable ({error.strerror}). {fix}")


def _backends() -> Iterator[Finding]:
    import torch

    from representer.ops import OPS

    present = {"cpu", "cuda"} if torch.cuda.is_available() else {"cpu"}
    for name, op in OPS.items():
        backends = [b for b in op.backends.values() if not b.devices or present & {*b.devices}]
        usable = [b.name for b in backends if not b.missing]
        missing = [f"{b.name}: {b.missing}" for b in backends if b.missing]
        detail = f"backends {', '.join(usable)}"
        status = "fail" if not usable else "note" if missing else "ok"
        yield Finding(status, name, "; ".join([detail, *missing]))


def _cells() -> Iterator[Finding]:
    from representer.nn import TABLE1

    for name in TABLE1:
        try:
            largest = deviation(name)
        except Exception as error:  # a crash of one cell must not hide the other findings
            yield Finding("fail", name, f"{type(error).__name__}: {error}")
            continue
        status = "ok" if largest < TOLERANCE else "fail"
        yield Finding(status, name, f"differs by {largest:.0e} from its recurrence (float64)")


# Compare a layer with its recurrence on a small random sequence.

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
