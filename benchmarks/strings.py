"""Measure the string-kernel layers against sru and torch.nn.LSTM: ``make bench``.

    python benchmarks/strings.py --out docs/results/strings.md

takes about five minutes; ``--quick`` takes one and is for development. The ``sru`` package, of
which the measured version is 2.6.0, is optional; without it its column is left out. It compiles
itself at its first import, for which it needs a compiler and ninja.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cases import FORWARD, SIZES, TRAINING, Size, run
from machine import command, load, measure_limits
from report import publish
from representer.nn import StringKernelRNN
from representer.ops import core
from results import Goal, Measured, Results
from string_page import page
from timing import Candidate, interleave
from verify import compare, exact, on_more_threads, values

LSTM, SRU = "nn.LSTM", "sru"
HIGHWAY = "order 1, highway"
LAYERS: dict[str, dict[str, Any]] = {
    HIGHWAY: {"order": 1, "decay": "input", "highway": True},
    "order 1": {"order": 1, "decay": "input"},
    "order 2": {"order": 2, "decay": "input"},
    "order 3": {"order": 3, "decay": "input"},
    "order 1, gate on x and h": {"order": 1, "decay": "state"},
}
LARGE, SMALL = ("words", "documents"), ("signals", "points")
CASES = (*LARGE, *SMALL)
STEPS = 40  # maximum length of the compared sequences


GOALS = (
    Goal(1, "words", FORWARD, HIGHWAY, SRU, 1.5),
    Goal(1, "words", TRAINING, HIGHWAY, SRU, 1.6),
    Goal(1, "documents", FORWARD, HIGHWAY, SRU, 1.7),
    Goal(1, "documents", TRAINING, HIGHWAY, SRU, 3.5),
    *(Goal(1, case, mode, "order 2", LSTM, 2.2) for case in LARGE for mode in (FORWARD, TRAINING)),
    *(Goal(1, case, FORWARD, "order 1", SRU, 6) for case in SMALL),
    *(Goal(1, case, TRAINING, "order 1", SRU, 25) for case in SMALL),
)


def import_sru() -> tuple[Any, str]:
    """Return the package, or None, and its version or why it is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for CUDA
        try:
            return importlib.import_module("sru"), metadata.version("sru")
        except (ImportError, OSError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            return None, f"left out: {reason} (pip install --no-deps sru==2.6.0; it needs ninja)"


def names(size: Size) -> list[str]:
    """Return our layers at a size; a highway needs as many features as units."""
    return [name for name in LAYERS if name != HIGHWAY or size.features == size.units]


def ours(name: str, size: Size) -> StringKernelRNN:
    """Return one of our layers, normalized as printed."""
    return StringKernelRNN(size.features, size.units, normalized=True, **LAYERS[name])


def products(name: str) -> int:
    """Return how many products with x a layer takes."""
    return LAYERS[name]["order"] + 1 + LAYERS[name].get("highway", False)  # 1: the decay


def operations(name: str, size: Size, mode: str) -> float:
    """Return the floating-point operations of the products.

    Those of sru are those of our highway, and one more for other numbers of features.
    """
    one = 2.0 * size.time * size.batch * size.units
    if name == LSTM:
        count = 4.0 * one * (size.features + size.units)
    else:
        known = HIGHWAY if name == SRU else name
        seen = size.units if LAYERS[known]["decay"] == "state" else 0
        more = name == SRU and size.features != size.units
        count = one * ((products(known) + more) * size.features + seen)
    return count if mode == FORWARD else 3 * count


def verify(name: str, size: Size) -> None:
    """Compare a layer with the torch backend at a size with few steps: values and gradients.

    It runs on every usable instruction set of the core.

    Raises:
        SystemExit: If it differs.
    """
    size = replace(size, time=min(size.time, STEPS))
    layer, x = ours(name, size), torch.randn(size.time, size.batch, size.features)
    gradient = torch.randn(size.time, size.batch, size.units)
    expected = exact(layer, x, gradient)
    for used in core.USABLE:
        with core.instruction_set(used):
            found = values(layer, x, gradient)
        compare(f"{name} at {size} on {used}", found, expected)


def candidates(size: Size, mode: str, sru: Any) -> list[Candidate]:
    """Return what is timed at a size."""
    made: dict[str, Callable[[], nn.Module]] = {
        name: lambda name=name: ours(name, size) for name in names(size)
    }
    made[LSTM] = lambda: nn.LSTM(size.features, size.units)
    if sru is not None:
        made[SRU] = lambda: sru.SRU(size.features, size.units, num_layers=1)
    found = []
    for name, make in made.items():
        layer = make().train(mode == TRAINING)
        is_slow = name == SRU and mode == TRAINING  # a loop in Python
        found.append(Candidate(name, run(layer, size, mode), is_slow))
    return found


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description="Measure the string-kernel layers on the CPU.")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument("--quick", action="store_true", help="three rounds")
    parser.add_argument("--before", type=Path, help="page to take the goals' earlier figures from")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--repeats", type=int, default=25, help="rounds; sru trains in 9 of them")
    chosen = parser.parse_args()
    if core.LIBRARY is None:
        raise SystemExit(core.MISSING)
    repeats = 3 if chosen.quick else chosen.repeats
    torch.set_num_threads(1)
    torch.manual_seed(0)
    before = load()
    sru, version = import_sru()
    print(f"sru: {version}", file=sys.stderr, flush=True)
    found = Results({1: measure_limits(1, repeats)})
    for case in chosen.cases:
        size = SIZES[case]
        for name in names(size):
            verify(name, size)
        for mode in (FORWARD, TRAINING):
            made = candidates(size, mode, sru)
            rounds = interleave(made, time.process_time, repeats, min(9, repeats))
            counted = {c.name: operations(c.name, size, mode) for c in made}
            found.measured[1, case, mode] = Measured(rounds, counted, (0.0, 0.0))
            print(case, mode, file=sys.stderr, flush=True)
    sizes = [SIZES[case] for case in chosen.cases]
    on_more_threads(lambda: [verify(name, size) for size in sizes for name in names(size)])
    remark = "A quick run for development: not to be quoted." if chosen.quick else ""
    loads = (before, load())
    text = page(found, GOALS, command(), loads, version, remark, chosen.before)
    publish(text, chosen.out)


if __name__ == "__main__":
    main()
