"""Measure the kernels on a GPU: correctness first, then ours and the baselines interleaved.

``python benchmarks/gpu.py --budget 540 --out DIR`` needs torch and Triton, runs from a source tree
without an installation, and writes ``DIR/gpu.jsonl``, a line as soon as it is measured, and
``DIR/gpu.md``, the page that it also prints. ``--smoke`` runs tiny sizes on the CPU as a check of
this script. What does not fit the budget is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the samples
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import torch
from torch import Tensor

from gpu_cases import GOALS, Calls, Case, large_samples, sections
from ops.samples import Sample, samples_of
from ops.trials import arguments, public_results, several
from report import table
from representer import __version__
from representer.errors import BackendError
from representer.ops import OPS, Op
from timing import Candidate, interleave

CHECKS = 0.35  # of the budget
PARTS = 8  # of the samples of an op, each checked by one process
REPEATS = {"cuda": 15, "cpu": 3}  # rounds of each candidate
CALLS = 3  # in a round, with one synchronization
OTHERS = ("launches", "compiled")  # sections of the page that other commands write
TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}  # of the largest entry
COMMAND = "python benchmarks/gpu.py --budget 230 --rounds 7 --out gpu-results"
ABOUT = f"""\
# GPU: goals, predictions and figures

This command compares every kernel with its equation in float64 on the device, runs it twice for
equal bits, and times it beside its baselines, interleaved, within so many seconds. It needs
torch 2.11 or later and Triton, no installation and no network:

```sh
{COMMAND}
```

It writes `gpu-results/gpu.jsonl`, one line per measurement, and `gpu-results/gpu.md`, this page.
`python benchmarks/gpu.py --rows gpu-results/gpu.jsonl --page docs/results/gpu.md` writes the page
again. `make test-gpu` runs the tests that need a device; without one, kernels are tested under
Triton's interpreter and compiled for compute capability 9.0 (`make triton`,
`python -m pytest tests/ops/test_triton.py`)."""
ABOUT_GOALS = """\
## Goals

A figure is the time of the baseline over ours, both with their input products; 2 means half the
time. The goal is the least acceptable figure, the second one what a good kernel reaches.
Predictions for an H100 or H200 follow from bandwidth, latency and launches, and were written before
any measurement. The clocks: *graph* replays a captured CUDA graph, device time alone; *eager*
includes the calls from Python. Where several sizes belong to a goal, the lowest figure counts;
in brackets, the number of sizes that were timed."""
ABOUT_CHECKS = """\
## Beside the equations

Results and gradients of samples, with units and steps as in training and as in the tests: the
largest difference from the definition in float64, as a share of the largest entry."""


class Run:
    """A measurement: its device, its deadline as ``time.monotonic`` counts, and its rows so far."""

    def __init__(self, device: str, deadline: float, out: Path, only: Sequence[str] = ()) -> None:
        self.only = only  # sections, by default all
        self.device, self.deadline, self.out = device, deadline, out
        self.rows: list[dict[str, Any]] = []

    def write(self, section: str, **row: Any) -> None:
        """Append a row to the results."""
        self.rows.append({"section": section, **row})
        with (self.out / "gpu.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.rows[-1]) + "\n")


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def identity(run: Run) -> None:
    """Write the names of the machine, and its rates of copies and products."""
    size, row = 256, {"representer": __version__, "torch": torch.__version__}
    if run.device == "cuda":
        import triton

        asked = "--query-gpu=name,driver_version,clocks.sm,clocks.mem"
        command = ["nvidia-smi", asked, "--format=csv,noheader"]
        state = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        row |= {"triton": triton.__version__, "gpu": torch.cuda.get_device_name(), "state": state}
        size = 8192
    a, b = (torch.randn(size, size, device=run.device).bfloat16() for _ in range(2))
    result = torch.empty_like(a)

    def seconds(call: Callable[[], object]) -> float:
        ten = Candidate("", lambda: ([call() for _ in range(10)], synchronize()))
        return interleave([ten], time.perf_counter, 3, 3).spread("").median / 10

    copy = seconds(lambda: result.copy_(a))
    multiply = seconds(lambda: torch.mm(a, b, out=result))
    row["copy_gb_s"] = 2 * a.numel() * a.element_size() / copy / 1e9
    row["bf16_tflop_s"] = 2 * size**3 / multiply / 1e12
    run.write("identity", **row)


def deviation(op: Op, sample: Sample, dtype: torch.dtype, device: str) -> tuple[float, float, bool]:
    """Return the largest difference from the definition in float64, of results and gradients.

    It is a share of the largest entry. The second value is what is allowed: more where the
    reference backend, on the CPU and in the same dtype, is off by more than half of that, as in
    recurrences that amplify the rounding to 16 bits. The third says if a second run gives the same
    bits.
    """

    def evaluate(function: Callable[..., Any], operands: dict[str, Tensor], **more: Any) -> Any:
        leaves = {name: x.detach().clone().requires_grad_(x.is_floating_point())
                  for name, x in operands.items()}  # fmt: skip
        marked = [x for name, x in leaves.items()
                  if x.requires_grad and name not in sample.constants]  # fmt: skip
        results = several(function(**arguments(op, sample, leaves), **more))
        results = results[: public_results(op)]  # a definition may return more
        total = sum(r.sum() for r in results)
        gradients = torch.autograd.grad(total, marked, materialize_grads=True)
        return [x.detach() for x in (*results, *gradients)]

    def largest_share(results: list[Tensor]) -> float:
        worst = 0.0
        for x, y in zip(results, expected, strict=True):
            share = (x.double().cpu() - y).abs().max() / y.abs().max().clamp_min(0.1)
            worst = max(worst, share.item() if share.isfinite() else float("inf"))
        return worst

    operands = sample.make(dtype)
    exact = {name: x.double() if x.is_floating_point() else x for name, x in operands.items()}
    on_device = {name: x.to(device) for name, x in operands.items()}
    backend = "triton" if device == "cuda" else None
    ours, again = (evaluate(op.function, on_device, backend=backend) for _ in range(2))
    expected, allowed = evaluate(op.definition, exact), TOLERANCE[dtype]
    if dtype.itemsize == 2:
        rounded = evaluate(op.function, operands, backend="reference")
        allowed = max(allowed, 2 * largest_share(rounded))
    return largest_share(ours), allowed, all(map(torch.equal, ours, again))


def check(name: str, dtype: torch.dtype, device: str, samples: slice, end: float) -> dict[str, Any]:
    """Compare some samples of an op with its definition, up to a time of ``time.monotonic``."""
    checked = {"worst": [0.0], "beyond": 0, "samples": 0, "differing": 0, "notes": []}
    for sample in [*large_samples(name), *samples_of(OPS[name])][samples]:
        if time.monotonic() > end:
            break
        note = {"sample": sample.name, "op": name}
        try:
            off, allowed, is_same = deviation(OPS[name], sample, dtype, device)
        except BackendError as error:  # the kernels do not take it
            checked["notes"].append(note | {"section": "skipped", "reason": str(error)})
            continue
        except Exception as error:  # one that does not compile, say: the others are checked
            off, allowed, is_same = float("inf"), 0.0, False
            checked["notes"].append(note | {"section": "failed", "reason": repr(error)[:400]})
        checked["worst"].append(off)
        if off > allowed or not is_same:
            checked["notes"].append(note | {"section": "wrong", "dtype": str(dtype), "off": off,
                                            "allowed": allowed, "repeats": is_same})  # fmt: skip
        checked["samples"] += 1
        checked["beyond"] += off > allowed
        checked["differing"] += not is_same
    return checked


def compile_case(section: str, number: int, end: float) -> None:
    """Call the layers of a case once, so that their kernels are compiled when they are timed."""
    if time.monotonic() < end:
        for calls in sections(is_tiny=False)[section][number]("cuda").modes.values():
            for call in calls.values():
                call()
        torch.cuda.synchronize()


def correctness(run: Run, end: float, every: int) -> bool:
    """Compare samples of every op with its definition; return True if none is wrong.

    On a GPU, processes beside each other compile and check, since compiling takes longest: first a
    part of the samples of every op, then the layers that are timed later, then the other samples.
    """
    dtypes = (torch.float32, torch.bfloat16) if run.device == "cuda" else (torch.float32,)
    cases = list(product([op.name for op in OPS.values() if "triton" in op.backends], dtypes))
    if run.device != "cuda":
        chosen = slice(0, None, every)
        results = [(case, check(*case, run.device, chosen, end)) for case in cases]
    else:
        processes = max(1, len(os.sched_getaffinity(0)) - 2)
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            jobs = []
            for k, case in product(range(PARTS), cases):
                part = slice(k, None, PARTS)
                jobs.append((case, pool.submit(check, *case, run.device, part, end)))
                if len(jobs) == len(cases):  # samples of every op are before what is timed
                    for name, makes in chosen_sections(run, is_tiny=False).items():
                        for number in range(len(makes)):  # a failure shows when it is timed
                            pool.submit(compile_case, name, number, end)
            results = [(case, job.result()) for case, job in jobs]
    is_right = True
    for case in cases:
        parts = [result for other, result in results if other == case]
        for note in (note for chunk in parts for note in chunk["notes"]):
            run.write(**note)
        beyond, differing, samples = (
            sum(chunk[key] for chunk in parts) for key in ("beyond", "differing", "samples")
        )
        worst, is_right = max(max(p["worst"]) for p in parts), is_right and not beyond + differing
        run.write("correctness", op=case[0], dtype=str(case[1]), samples=samples, worst=worst,
                  allowed=TOLERANCE[case[1]], beyond=beyond, not_repeatable=differing)  # fmt: skip
    return is_right


def replay_of(call: Callable[[], object]) -> Callable[[], object]:
    """Return the replay of a captured graph of several calls.

    Raises:
        RuntimeError: It cannot be captured.
    """
    if not torch.cuda.is_available():
        raise RuntimeError("needs a CUDA device")
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    try:
        with torch.cuda.graph(graph):
            for _ in range(CALLS):
                call()
    finally:
        torch.cuda.synchronize()
    return graph.replay


def compare(run: Run, section: str, case: Case) -> None:
    """Time the calls of a case in turns, the first one twice: the difference is the noise."""
    for mode, calls in case.modes.items():
        row = {"size": case.size, "dtype": case.dtype, "mode": mode}
        for way, seconds in timed(run, section, row, calls, case.has_graphs).items():
            name, _, clock = way.rpartition(", ")
            ordered = [1e6 * s / CALLS for s in sorted(seconds.values())]
            fifth = len(ordered) // 5
            run.write(section, **row, layer=name, clock=clock, median=statistics.median(ordered),
                      p20=ordered[fifth], p80=ordered[-1 - fifth])  # fmt: skip


def timed(
    run: Run, section: str, row: dict[str, Any], calls: Calls, has_graphs: bool
) -> dict[str, dict[int, float]]:
    """Return the seconds of the rounds by name and clock: calls from Python, and replays."""

    def several(call: Callable[[], object]) -> Callable[[], object]:
        return lambda: ([call() for _ in range(CALLS)], synchronize())

    first = next(iter(calls))
    ways = {f"{name}, eager": several(call) for name, call in calls.items()}
    ways[f"{first} again, eager"] = several(calls[first])
    for name, call in calls.items() if has_graphs else ():
        call()
        try:
            replay = replay_of(call)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            run.write(section, **row, layer=name, clock="graph", failed=reason)
            continue
        ways[f"{name}, graph"] = lambda replay=replay: (replay(), synchronize())
    repeats = REPEATS[run.device]
    candidates = [Candidate(way, call) for way, call in ways.items()]
    return interleave(candidates, time.perf_counter, repeats, repeats).seconds


def measure(run: Run, is_tiny: bool, even_if_wrong: bool = False) -> bool:
    """Check all ops, then time all cases while there is time; return True if all are right."""
    identity(run)
    now = time.monotonic()
    is_right = correctness(run, now + CHECKS * (run.deadline - now), every=40 if is_tiny else 1)
    if is_right or even_if_wrong:
        for section, makes in chosen_sections(run, is_tiny).items():
            for make in makes:
                attempt(run, section, make)
    return is_right


def chosen_sections(run: Run, is_tiny: bool) -> dict[str, Any]:
    """Return the sections that are timed."""
    found = sections(is_tiny)
    return {name: found[name] for name in run.only or found}


def attempt(run: Run, section: str, make: Callable[[str], Case]) -> None:
    """Time a case if there is time; if it fails, the others are timed all the same."""
    reason = "no time left"
    torch.compiler.reset()  # else layers of other cases count as versions of one that is compiled
    if time.monotonic() < run.deadline:
        try:
            return compare(run, section, make(run.device))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
    return run.write("skipped", case=f"{section} {getattr(make, 'args', '')}", reason=reason)


def kept_of(text: str) -> tuple[list[str], str]:
    """Return what a page has from other commands, and its section about an earlier device."""
    marks = (re.search(f"<!-- {x} -->.*<!-- end of {x} -->", text, re.DOTALL) for x in OTHERS)
    _, heading, earlier = text.partition("\n## Earlier")
    return [found.group() for found in marks if found], heading + earlier


def page(rows: Sequence[dict[str, Any]], note: str = "", before: str = "") -> str:
    """Return the page: every goal, with its figure if one of its cases was timed.

    What other commands wrote is taken from the page as it was before.
    """
    others, earlier = kept_of(before)
    shown = []
    for goal in GOALS:
        figure, ratios = "not measured", goal.ratios(rows)
        if ratios:
            verdict = "met" if min(ratios) >= goal.least else "missed"
            figure = f"{min(ratios):.2f} ({len(ratios)}): {verdict}"
        shown.append([goal.what, goal.mode, goal.clock, f"{goal.least:g}", f"{goal.good:g}",
                      goal.predicted, figure])  # fmt: skip
    heads = ["comparison", "passes", "clock", "goal", "good", "predicted", "measured"]
    parts = [ABOUT, machine(rows), note, ABOUT_GOALS, table(heads, shown, 7), *others]
    checked = [
        [f"`{row['op']}`", row["dtype"].removeprefix("torch."), str(row["samples"]),
         f"{row['worst']:.1e}", f"{row['allowed']:g}", str(row["not_repeatable"])]
        for row in rows if row["section"] == "correctness"
    ]  # fmt: skip
    heads = ["operator", "dtype", "samples", "off by", "allowed", "with other bits the second time"]
    parts += [ABOUT_CHECKS, table(heads, checked, 2)] if checked else []
    times, first = [], {}  # the latter: the layer that others are compared with, and its median
    for row in (row for row in rows if "median" in row):
        size = " × ".join(map(str, row["size"]))
        key = f"{row['section']}, {size}, {row['dtype']}", row["mode"], row["clock"]
        if row["layer"] == first.get(key, (row["layer"],))[0]:  # another case of this size, too
            first[key] = row["layer"], row["median"]
        spread = f"{row['median']:.1f} ({row['p20']:.1f} to {row['p80']:.1f})"
        times.append([*key, row["layer"], spread, f"{first[key][1] / row['median']:.2f}"])
    heads = ["case", "passes", "clock", "layer", "µs", "ratio to the first"]
    parts += ["## All times", table(heads, times, 4)] if times else []
    parts.append(earlier)
    return "\n\n".join(chunk.strip() for chunk in parts if chunk) + "\n"


def machine(rows: Sequence[dict[str, Any]]) -> str:
    """Return the sentence about the device."""
    row = next((row for row in rows if row["section"] == "identity" and "gpu" in row), None)
    return "" if row is None else (
        f"Measured on one {row['gpu']} with torch {row['torch']} and Triton {row['triton']}: a "
        f"copy moves {row['copy_gb_s'] / 1000:.1f} TB/s, a product in bfloat16 computes "
        f"{row['bf16_tflop_s']:.0f} TFLOP/s."
    )  # fmt: skip


def main(arguments: list[str]) -> int:
    """Measure, and return the exit status: 1 if a kernel is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--budget", type=float, default=540, help="seconds")
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU")
    parser.add_argument("--even-if-wrong", action="store_true", help="time wrong kernels, too")
    parser.add_argument("--page", type=Path, help="write the page of --rows here, and end")
    parser.add_argument("--rows", type=Path, help="gpu.jsonl of an earlier measurement")
    parser.add_argument("--note", default="", help="about the measurement, for the page")
    parser.add_argument("--only", nargs="*", default=[], help="sections that are timed")
    parser.add_argument("--rounds", type=int, help="of each candidate on a GPU, 15 by default")
    chosen = parser.parse_args(arguments)
    REPEATS["cuda"] = chosen.rounds or REPEATS["cuda"]
    if chosen.page is not None:
        lines = chosen.rows.read_text("utf-8").splitlines() if chosen.rows else []
        before = chosen.page.read_text("utf-8") if chosen.page.exists() else ""
        written = page([json.loads(line) for line in lines], chosen.note, before)
        chosen.page.write_text(written, "utf-8")
        return 0
    if chosen.out is None:
        parser.error("--out is missing")
    if not chosen.smoke and not torch.cuda.is_available():
        parser.error("no CUDA device; --smoke runs tiny sizes on the CPU")
    chosen.out.mkdir(parents=True, exist_ok=True)
    device = "cpu" if chosen.smoke else "cuda"
    run = Run(device, time.monotonic() + chosen.budget, chosen.out, chosen.only)
    is_right = measure(run, chosen.smoke, chosen.even_if_wrong)
    (chosen.out / "gpu.md").write_text(page(run.rows), encoding="utf-8")
    print(page(run.rows), end="")
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
