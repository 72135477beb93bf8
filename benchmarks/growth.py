"""Measure how time and memory grow with steps, sequences and units.

    python benchmarks/growth.py --out docs/results/growth.md

takes about fifteen minutes and also writes the curves beside the page; ``--quick`` takes two. The
``sru`` package is optional, see ``strings.py``.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cases import FORWARD, TRAINING, Size, run
from growth_page import page, write_curves
from machine import load
from report import publish
from representer.nn import TABLE1, StringKernelRNN
from representer.ops import core
from strings import import_sru

LSTM, SRU = "nn.LSTM", "sru"
OURS = ("RKM-LSTM", "Linear Kernel", "string, order 1, highway")
MODES = (FORWARD, TRAINING)


@dataclass(frozen=True)
class Axis:
    """One size that grows while the others stay."""

    name: str
    what: str
    start: Size
    values: tuple[int, ...]

    def size(self, value: int) -> Size:
        """Return the size at a value of the axis."""
        changes = {"features": value} if self.name == "units" else {}
        return replace(self.start, **{self.name: value}, **changes)


AXES = (
    Axis("time", "T", Size(0, 1, 32, 32), (100, 1000, 10_000, 100_000, 1_000_000)),
    Axis("batch", "B", Size(50, 0, 64, 64), (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)),
    Axis("units", "d", Size(20, 8, 0, 0), (8, 16, 32, 64, 128, 256, 512, 1024, 2048)),
)


@dataclass(frozen=True)
class Point:
    """Seconds and peak bytes of a run."""

    seconds: float
    memory: float


Curve = dict[int, Point]  # by the value of the axis


@dataclass
class Found:
    """The curves by axis, mode and name of the layer."""

    curves: dict[tuple[str, str, str], Curve] = field(default_factory=dict)


def layers(size: Size, sru: Any) -> dict[str, Callable[[], nn.Module]]:
    """Return what makes each layer."""
    m, d = size.features, size.units
    made: dict[str, Callable[[], nn.Module]] = {}
    for name in OURS[:2]:
        made[name] = lambda name=name: TABLE1[name](m, d)
    made[OURS[2]] = lambda: StringKernelRNN(
        m, d, order=1, decay="input", highway=True, normalized=True
    )
    made[LSTM] = lambda: nn.LSTM(m, d)
    if sru is not None:
        made[SRU] = lambda: sru.SRU(m, d, num_layers=1)
    return made


def measure(axis: Axis, mode: str, limit: float, repeats: int, sru: Any) -> dict[str, Curve]:
    """Return the curve of each layer; a layer stops where a run is expected to pass the limit.

    The layers take turns at each size. A time is the median of the rounds, of which long runs have
    fewer; before them each layer runs once, which its memory is measured in.
    """
    curves: dict[str, Curve] = {}
    for value in axis.values:
        size = axis.size(value)
        runs: dict[str, Callable[[], object]] = {}
        for name, make in layers(size, sru).items():
            curve = curves.setdefault(name, {})
            if curve and _expected(curve, value) > limit:
                continue
            if curve or value == axis.values[0]:
                runs[name] = run(make().train(mode == TRAINING), size, mode)
        memory = {name: peak_memory(do) for name, do in runs.items()}
        taken: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(repeats):
            for name, do in runs.items():
                if sum(taken[name]) < limit:
                    taken[name].append(_seconds(do))
        for name in runs:
            curves[name][value] = Point(statistics.median(taken[name]), memory[name])
        print(axis.name, mode, value, file=sys.stderr, flush=True)
    return curves


def _expected(curve: Curve, value: int) -> float:
    last = max(curve)
    return curve[last].seconds * value / last if last < value else 0.0


def _seconds(do: Callable[[], object]) -> float:
    """Return the CPU time of a run, of many runs together if it is short."""
    started, count = time.process_time(), 0
    while not count or time.process_time() - started < 0.02:
        do()
        count += 1
    return (time.process_time() - started) / count


def peak_memory(do: Callable[[], object]) -> float:
    """Return the bytes by which the resident memory of the process rises at most during a run.

    The process gives unused memory back before, and Linux then counts the peak from here on.
    """
    do()  # what a first call keeps is not counted
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    do()
    return max(0.0, _status("VmHWM") - before)


def _status(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(key))


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description="Measure how time and memory grow.")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument("--quick", action="store_true", help="short runs, once each")
    parser.add_argument("--axes", nargs="+", choices=[a.name for a in AXES], help="default: all")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of a run at most")
    parser.add_argument("--repeats", type=int, default=5, help="rounds")
    chosen = parser.parse_args()
    if core.LIBRARY is None:
        raise SystemExit(core.MISSING)
    if not Path("/proc/self/clear_refs").exists():
        raise SystemExit("the peak of memory is measured by /proc/self/clear_refs, which Linux has")
    limit, repeats = (0.5, 1) if chosen.quick else (chosen.limit, chosen.repeats)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    before, (sru, version) = load(), import_sru()
    found, axes = Found(), [a for a in AXES if a.name in (chosen.axes or [a.name for a in AXES])]
    for axis in axes:
        for mode in MODES:
            for name, curve in measure(axis, mode, limit, repeats, sru).items():
                found.curves[axis.name, mode, name] = curve
    command = " ".join(["python", *sys.argv])
    remark = "A quick run for development: not to be quoted." if chosen.quick else ""
    curves = None if chosen.out is None else chosen.out.with_suffix(".svg")
    text = page(found, axes, command, (before, load()), version, remark, curves)
    publish(text, chosen.out)
    if curves is not None:
        write_curves(found, axes, curves)


if __name__ == "__main__":
    main()
