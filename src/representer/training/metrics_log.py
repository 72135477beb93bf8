"""The metrics of each evaluation, in files that a resumed run continues exactly."""

from __future__ import annotations

import csv
import io
import json
import math
import resource
import sys
from collections.abc import Mapping
from typing import Any

import torch

from representer.errors import KindError
from representer.storage.run_folder import RunFolder

METRICS_JSONL, METRICS_CSV, TIMINGS = "metrics.jsonl", "metrics.csv", "timings.jsonl"

Row = dict[str, Any]


class MetricsLog:
    """Metrics by evaluation, and separately the timings, which differ between runs.

    ``metrics.jsonl`` and ``metrics.csv`` are rewritten completely from the rows, so that each row
    occurs once even after a crash.

    Attributes:
        rows: ``step``, ``epoch``, ``train_loss`` and the metrics; None if not finite.
        timings: ``step``, ``seconds`` of training up to it, without interruptions, and the peak
            memory of this process, ``peak_mib``: of CUDA devices where they are used.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.timings: list[Row] = []

    def append(
        self, step: int, epoch: int, train_loss: float, metrics: Mapping[str, Any], seconds: float
    ) -> Row:
        """Add the row of an evaluation and return it.

        Raises:
            KindError: A metric is not a number.
        """
        numbers = {name: _number(name, value) for name, value in metrics.items()}
        row = {"step": step, "epoch": epoch, "train_loss": _number("train_loss", train_loss)}
        self.rows.append({**row, **numbers})
        self.timings.append({"step": step, "seconds": round(seconds, 3), "peak_mib": peak_memory()})
        return self.rows[-1]

    def values(self, name: str) -> list[float | None]:
        """Return the values of one metric, by evaluation."""
        return [row.get(name) for row in self.rows]

    def write(self, run: RunFolder) -> None:
        """Write the files, or remove them if there are no rows."""
        for name, text in (
            (METRICS_JSONL, as_jsonl(self.rows)),
            (METRICS_CSV, _as_csv(self.rows)),
            (TIMINGS, as_jsonl(self.timings)),
        ):
            if self.rows:
                run.write_text(name, text)
            else:
                run.remove(name)


def peak_memory() -> int:
    """Return the most memory that this process has had so far, in MiB.

    It is what tensors took on CUDA devices if there are any in use, else all memory of the process.
    """
    if torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        return sum(map(torch.cuda.max_memory_allocated, devices)) // 2**20
    unit = 1 if sys.platform == "darwin" else 1024  # bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 2**20


def _number(name: str, value: Any) -> float | int | None:
    if type(value) is int:
        return value
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise KindError(f"metric {name!r}", type(value).__name__, "a number")
    return float(value) if math.isfinite(float(value)) else None


def as_jsonl(rows: list[Row]) -> str:
    """Return rows as lines of JSON."""
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)


def _as_csv(rows: list[Row]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
