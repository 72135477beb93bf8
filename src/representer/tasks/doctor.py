"""Check this machine: interpreter, packages, working directory, torch, backends and cells.

It runs without torch, too.
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from representer.checks import findings as extensions
from representer.options.task import PACKAGES, is_importable, package_version

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
    from representer.models.cells import TABLE1, deviation

    for name in TABLE1:
        try:
            largest = deviation(name)
        except Exception as error:  # a crash of one cell must not hide the other findings
            yield Finding("fail", name, f"{type(error).__name__}: {error}")
            continue
        status = "ok" if largest < TOLERANCE else "fail"
        yield Finding(status, name, f"differs by {largest:.0e} from its recurrence (float64)")
