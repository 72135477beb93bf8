"""The page of results of the GPU benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_goals import goals
from report import table

NOT_MEASURED = "not measured"
COMMAND = "python benchmarks/gpu.py --budget 540 --out gpu-results"
ABOUT = f"""\
# GPU: goals, predictions and figures

This command compares every kernel with its equation in float64 on the device, runs it twice for
equal bits, and times it beside its baselines, interleaved, within so many seconds. It needs
torch 2.10 or later and Triton, no installation and no network:

```sh
{COMMAND}
```

It writes `gpu-results/gpu.jsonl`, one line per measurement, and `gpu-results/gpu.md`, this page.
`python benchmarks/gpu.py --rows gpu-results/gpu.jsonl --page docs/results/gpu.md` writes the page
again. `make test-gpu` runs the tests that need a device; without one, kernels are tested under
Triton's interpreter and compiled for compute capability 9.0 (`make triton`,
`python -m pytest tests/ops/test_triton.py`)."""
GOALS = """\
## Goals

A figure is the time of the baseline over ours, both with their input products; 2 means half the
time. The goal is the least acceptable figure, the second one what a good kernel reaches.
Predictions for an H100 or H200 follow from bandwidth, latency and launches, and were written before
any measurement. The clocks: *graph* replays a captured CUDA graph, device time alone; *eager*
includes the calls from Python. Where several sizes belong to a goal, the lowest figure counts;
in brackets, the number of sizes that were timed."""
CORRECT = """\
## Beside the equations

Results and gradients of samples, with units and steps as in training and as in the tests: the
largest difference from the definition in float64, as a share of the largest entry."""


def page(rows: Sequence[dict[str, Any]], note: str = "") -> str:
    """Return the page: every goal, with its figure if one of its cases was timed."""
    shown = []
    for goal in goals():
        figure, ratios = NOT_MEASURED, goal.ratios(rows)
        if ratios:
            verdict = "met" if min(ratios) >= goal.least else "missed"
            figure = f"{min(ratios):.2f} ({len(ratios)}): {verdict}"
        shown.append([goal.what, goal.mode, goal.clock, f"{goal.least:g}", f"{goal.good:g}",
                      goal.predicted, figure])  # fmt: skip
    heads = ["comparison", "passes", "clock", "goal", "good", "predicted", "measured"]
    parts = [ABOUT, machine(rows), note, GOALS, table(heads, shown, 7), *checks(rows), *times(rows)]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def machine(rows: Sequence[dict[str, Any]]) -> str:
    """Return the sentence about the device."""
    for row in rows:
        if row["section"] == "identity" and "gpu" in row:
            return (
                f"Measured on one {row['gpu']} with torch {row['torch']} and Triton "
                f"{row['triton']}: a copy moves {row['copy_gb_s'] / 1000:.1f} TB/s, a product in "
                f"bfloat16 computes {row['bf16_tflop_s']:.0f} TFLOP/s."
            )
    return ""


def checks(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return how far the kernels are from their equations."""
    shown = [
        [f"`{row['op']}`", row["dtype"].removeprefix("torch."), str(row["samples"]),
         f"{row['worst']:.1e}", f"{row['allowed']:g}", str(row["not_repeatable"])]
        for row in rows if row["section"] == "correctness"
    ]  # fmt: skip
    heads = ["operator", "dtype", "samples", "off by", "allowed", "with other bits the second time"]
    return [CORRECT, table(heads, shown, 2)] if shown else []


def times(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the measurements: microseconds, and the time of the first of a case over each."""
    shown, first = [], {}
    for row in (row for row in rows if "median" in row):
        size = " × ".join(map(str, row["size"]))
        case = f"{row['section']}, {size}, {row['dtype']}"
        key = case, row["mode"], row["clock"]
        first.setdefault(key, row["median"])
        spread = f"{row['median']:.1f} ({row['p20']:.1f} to {row['p80']:.1f})"
        ratio = f"{first[key] / row['median']:.2f}"
        shown.append([*key, row["layer"], spread, ratio])
    heads = ["case", "passes", "clock", "layer", "µs", "ratio to the first"]
    return ["## All times", table(heads, shown, 4)] if shown else []
