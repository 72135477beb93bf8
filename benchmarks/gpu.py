"""Measure the kernels on a GPU: correctness first, then ours and the baselines interleaved.

``python benchmarks/gpu.py --budget 540 --out DIR`` needs torch and Triton, runs from a source tree
without an installation, and writes ``DIR/gpu.jsonl``, a line as soon as it is measured, and
``DIR/gpu.md``, the table that it also prints. ``--smoke`` runs tiny sizes on the CPU as a check of
this script. Each section has a part of the budget, and leaves out what does not fit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import torch
from torch import Tensor, nn

from gpu_cases import Case, Make, sections
from gpu_checks import TOLERANCE, Checked, check_part
from gpu_clocks import eager_seconds, interleaved, kernel_names, peak_memory
from gpu_goals import FORWARD, TRAINING
from gpu_page import page
from gpu_steps import language_steps
from representer import __version__
from representer.ops import OPS

SHARES = {"identity": 0.03, "correctness": 0.32, "barriers": 0.03,
          "recurrent": 0.32, "scans": 0.05, "training steps": 0.05, "activations": 0.07,
          "learned recurrent": 0.05, "graphs": 0.08}  # fmt: skip
PARTS = 8  # of the samples of an op, each checked by one process
REPEATS = {"cuda": 15, "cpu": 3}  # rounds of each candidate


@dataclass
class Run:
    """A measurement: its device, its deadline and its results.

    Attributes:
        device: Device type.
        deadline: End of the measurement, as ``time.monotonic`` counts.
        out: Folder of the results.
        rows: Results so far.
    """

    device: str
    deadline: float
    out: Path
    rows: list[dict[str, Any]] = field(default_factory=list)

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.deadline - time.monotonic()

    def write(self, section: str, **row: Any) -> None:
        """Append a row to the results."""
        self.rows.append({"section": section, **row})
        with (self.out / "gpu.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.rows[-1]) + "\n")


def identity(run: Run) -> None:
    """Write the names of the machine, and its rates of copies and products."""
    size, row = 256, {"representer": __version__, "torch": torch.__version__}
    if run.device == "cuda":
        import triton

        asked = "name,driver_version,clocks.sm,clocks.mem"
        command = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"]
        shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        row |= {"triton": triton.__version__, "gpu": torch.cuda.get_device_name(), "state": shown}
        size = 8192
    a, b = (torch.randn(size, size, device=run.device).bfloat16() for _ in range(2))
    copied = torch.empty_like(a)
    copy, multiply = (
        statistics.median(eager_seconds(call, 10) for _ in range(3))
        for call in (lambda: copied.copy_(a), lambda: torch.mm(a, b, out=copied))
    )
    row["copy_gb_s"] = 2 * a.numel() * a.element_size() / copy / 1e9
    row["bf16_tflop_s"] = 2 * size**3 / multiply / 1e12
    run.write("identity", **row)


def compile_case(section: str, number: int, end: float) -> None:
    """Call the layers of a case once, so that their kernels are compiled when they are timed."""
    if time.monotonic() > end:
        return
    case = sections(is_tiny=False)[section][number]("cuda")
    for layer in case.layers.values():
        for call in passes(layer, case.x).values():
            if time.monotonic() < end:
                call()
    torch.cuda.synchronize()


def correctness(run: Run, until: float, every: int = 1) -> bool:
    """Compare samples of every op with its definition; return True if none is wrong.

    On a GPU, processes beside each other compile and check, since compiling takes longest; they
    compile the layers that are timed later, too.
    """
    dtypes = (torch.float32, torch.bfloat16) if run.device == "cuda" else (torch.float32,)
    cases = list(product([op.name for op in OPS.values() if "triton" in op.backends], dtypes))
    end, found = time.monotonic() + run.left() - until, {case: Checked() for case in cases}
    if run.device != "cuda":
        for name, dtype in cases:
            found[name, dtype] = check_part(name, dtype, run.device, slice(0, None, every), end)
    else:
        count = max(1, len(os.sched_getaffinity(0)) - 2)
        with ProcessPoolExecutor(count, get_context("spawn")) as pool:
            compiling = [
                pool.submit(compile_case, name, number, end)
                for name, made in sections(is_tiny=False).items()
                for number in range(len(made))
            ]
            checking = {
                pool.submit(check_part, *case, run.device, slice(k, None, PARTS), end): case
                for k, case in product(range(PARTS), cases)
            }
            for job, case in checking.items():
                found[case].add(job.result())
            for job in compiling:
                if error := job.exception():  # its measurement will say why
                    run.write("not compiled", reason=repr(error)[:400])
    for (name, dtype), checked in found.items():
        for note in checked.notes:
            run.write(**note)
        run.write(
            "correctness", op=name, dtype=str(dtype), samples=checked.samples, worst=checked.worst,
            allowed=TOLERANCE[dtype], beyond=checked.beyond, not_repeatable=checked.differing,
        )  # fmt: skip
    return not any(one.beyond or one.differing for one in found.values())


def passes(layer: nn.Module, x: Tensor) -> dict[str, Callable[[], object]]:
    """Return the timed calls of a layer: its values, and its values with all gradients."""
    parameters = list(layer.parameters())

    def forward() -> object:
        with torch.no_grad():
            return layer(x)

    def training() -> object:
        result = layer(x)
        output = result if isinstance(result, Tensor) else result[0]
        return torch.autograd.grad(output, parameters, torch.ones_like(output), allow_unused=True)

    return {FORWARD: forward, TRAINING: training}


def compare(run: Run, section: str, case: Case) -> None:
    """Time layers on one input and write their rows, with the peak memory of a call."""
    for mode in (FORWARD, TRAINING):
        calls = {name: passes(layer, case.x)[mode] for name, layer in case.layers.items()}
        seen = {name: (kernel_names(call), peak_memory(call)) for name, call in calls.items()}
        for name, clock, result in interleaved(calls, REPEATS[run.device]):
            times = {"failed": result} if isinstance(result, str) else result
            kernels, peak = seen.get(name, ([], None))
            run.write(
                section, size=case.size, dtype=case.dtype, mode=mode, layer=name, clock=clock,
                kernels=kernels, peak_mib=peak, **times,
            )  # fmt: skip


def attempt(run: Run, case: str, until: float, measure: Callable[[], object]) -> None:
    """Measure a case if there is time; if it fails, the other cases are measured all the same."""
    if run.left() < until:
        run.write("skipped", case=case, reason="no time left")
        return
    try:
        measure()
    except Exception as error:
        run.write("skipped", case=case, reason=f"{type(error).__name__}: {error}")


def timed(run: Run, section: str, cases: list[Make], until: float) -> None:
    """Time the cases of a section as long as there is time."""
    for make in cases:
        label = f"{section} {getattr(make, 'args', '')}"
        attempt(run, label, until, lambda: compare(run, section, make(run.device)))  # noqa: B023


def barriers(run: Run) -> None:
    """Write the costs of a step that programs take together."""
    rows: Any = ({"failed": "needs a CUDA device"},)
    if run.device == "cuda":
        from gpu_barriers import ladder

        rows = ladder()
    for row in rows:
        run.write("barriers", **row)


def training_steps(run: Run, size: tuple[int, int, int]) -> None:
    """Time training steps with and without a CUDA graph."""
    calls = language_steps(size, run.device)
    for name, clock, result in interleaved(calls, REPEATS[run.device], clocks=("eager",)):
        run.write(
            "training steps", size=size, dtype="float32", mode=TRAINING, layer=name, clock=clock,
            **result,
        )  # fmt: skip


def measure(run: Run, is_tiny: bool, even_if_wrong: bool = False) -> bool:
    """Run all sections; return True if all kernels are right."""
    budget = run.left()
    ends, after = {}, budget
    for name, share in SHARES.items():
        after -= share * budget
        ends[name] = after  # seconds that the later sections have
    identity(run)
    is_right = correctness(run, ends["correctness"], every=40 if is_tiny else 1)
    if is_right or even_if_wrong:
        attempt(run, "barriers", ends["barriers"], lambda: barriers(run))
        size = (3, 2, 4) if is_tiny else (35, 20, 200)
        attempt(run, "steps", ends["training steps"], lambda: training_steps(run, size))
        for name, cases in sections(is_tiny).items():
            timed(run, name, cases, ends[name])
    return is_right


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
    given = parser.parse_args(arguments)
    if given.page is not None:
        lines = given.rows.read_text("utf-8").splitlines() if given.rows else []
        text = page([json.loads(line) for line in lines], given.note)
        given.page.write_text(text, encoding="utf-8")
        return 0
    if given.out is None:
        parser.error("--out is missing")
    if not given.smoke and not torch.cuda.is_available():
        parser.error("no CUDA device; --smoke runs tiny sizes on the CPU")
    given.out.mkdir(parents=True, exist_ok=True)
    device = "cpu" if given.smoke else "cuda"
    run = Run(device, time.monotonic() + given.budget, given.out)
    is_right = measure(run, given.smoke, given.even_if_wrong)
    text = page(run.rows)
    (given.out / "gpu.md").write_text(text, encoding="utf-8")
    print(text)
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
