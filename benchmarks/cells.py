"""Measure the cells against torch's and the machine's limits: ``make bench``.

    python benchmarks/cells.py --out docs/results/cpu.md

takes about ten minutes without torch.compile; ``--quick`` takes one and is for development.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from cases import FORWARD, SIZES, TRAINING
from compiled import Compiled, compile_in_child
from machine import command, cores, load, measure_limits
from measure import clock, measure
from report import page, publish
from representer.ops import core
from results import STEPS, TORCH, Results, goals
from scans import scan_rows
from verify import on_more_threads, verify

SCAN = "scan"
CASES = [*SIZES, STEPS, TORCH, SCAN]
QUICK = "A quick run for development, three rounds: not to be quoted."


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the cells on this machine's CPU.")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument(
        "--quick", action="store_true", help="three rounds, one thread, no torch.compile"
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES, help="what to time")
    parser.add_argument("--threads", nargs="+", type=int, help="default: 1 2; --quick: 1")
    parser.add_argument("--repeats", type=int, default=25, help="rounds; slow baselines run in 5")
    parser.add_argument(
        "--compile",
        nargs="*",
        choices=list(SIZES),
        default=["words"],
        help="sizes at which the eager loop is compiled; default: words, the shortest",
    )
    parser.add_argument("--before", type=Path, help="page to take the goals' earlier figures from")
    parser.add_argument("--compile-limit", type=int, default=600, help="seconds to wait for it")
    chosen = parser.parse_args()
    if chosen.threads is None:
        chosen.threads = [1] if chosen.quick or cores() == 1 else [1, 2]
    return chosen


def main() -> None:
    chosen = options()
    if core.LIBRARY is None:
        raise SystemExit(core.MISSING)
    too_many = [n for n in chosen.threads if not 1 <= n <= cores()]
    if too_many:
        raise SystemExit(f"--threads {too_many[0]}: this process may use 1 to {cores()}")
    repeats = 3 if chosen.quick else chosen.repeats
    slow_repeats = 1 if chosen.quick else min(5, repeats)
    before = load()
    results, scans, compiled = Results(), [], []
    for threads in sorted(chosen.threads):  # a second thread, once there, adds to the CPU time
        torch.manual_seed(0)
        for key in measure(chosen.cases, threads, repeats, slow_repeats, results):
            print(*key, file=sys.stderr, flush=True)
        if threads == 1:
            if SCAN in chosen.cases:
                scans = scan_rows(clock(1), repeats, results.limits[1])
            compiled = [] if chosen.quick else _compiled(chosen)
    if 1 not in results.limits:  # which bounds the speedup of more threads
        results.limits[1] = measure_limits(1, repeats)
    on_more_threads(lambda: [verify(SIZES[case]) for case in SIZES.keys() & chosen.cases])
    remark = QUICK if chosen.quick else ""
    loads = (before, load())
    text = page(results, goals(), scans, compiled, command(), loads, remark, chosen.before)
    publish(text, chosen.out)


def _compiled(chosen: argparse.Namespace) -> list[Compiled]:
    cases = [case for case in chosen.compile if case in chosen.cases]
    found = []
    for case in cases:
        for mode in (FORWARD, TRAINING):
            print("torch.compile", case, mode, file=sys.stderr, flush=True)
            found.append(compile_in_child(case, mode, 5, chosen.compile_limit))
    return found


if __name__ == "__main__":
    main()
