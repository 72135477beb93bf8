"""How long ``import representer`` takes, how much of it the core is, and how long it builds.

    python benchmarks/start.py --out docs/results/start.md

Every import runs in a process of its own; CPU time is measured, so a busy machine hardly matters.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import load
from report import machine_table, publish
from representer.ops import core

CSRC = Path(__file__).parents[1] / "src" / "representer" / "csrc"

# what a fresh process runs, {what}: measured after torch, which the user imports anyway
_IMPORT = "import time, torch; t = time.process_time(); {what}; print(time.process_time() - t)"
IMPORTS = {
    "`import representer`": "import representer",
    "`import representer.ops`, which loads the core": "import representer.ops",
    "`import representer.nn`": "import representer.nn",
}
_LOAD = (
    "import ctypes, time, torch; t = time.process_time();"
    " core = ctypes.CDLL({path!r}); core.representer_runs(b'avx2'); print(time.process_time() - t)"
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure importing and building.")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    parser.add_argument("--repeats", type=int, default=9, help="fresh processes for each import")
    parser.add_argument("--no-build", action="store_true", help="leave the build out: it is long")
    chosen = parser.parse_args()
    if core.LIBRARY is None:
        raise SystemExit(core.MISSING)
    before = load()
    path = core.LIBRARY._name
    programs = {name: _IMPORT.format(what=what) for name, what in IMPORTS.items()}
    programs["loading the core alone"] = _LOAD.format(path=path)
    times = measure_imports(programs, chosen.repeats)
    built = None if chosen.no_build else build()
    text = page(times, Path(path).stat().st_size, built, (before, load()))
    publish(text, chosen.out)


def measure_imports(programs: dict[str, str], repeats: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each program by round, after one round that fills the caches."""
    times: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(repeats + 1):
        for name, program in programs.items():
            ran = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=True
            )
            if number:
                times[name].append(float(ran.stdout))
    return times


def build() -> tuple[float, float]:
    """Build the core from nothing on two cores; return wall and CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        for command in (
            ["cmake", "-S", str(CSRC), "-B", folder],
            ["cmake", "--build", folder, "--parallel", "2"],
        ):
            subprocess.run(command, check=True, capture_output=True)
        wall = time.perf_counter() - started
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        return wall, now.ru_utime - used.ru_utime + now.ru_stime - used.ru_stime


def page(
    times: dict[str, list[float]],
    size: int,
    built: tuple[float, float] | None,
    loads: tuple[str, str],
) -> str:
    """Write what was measured as Markdown."""
    lines = [
        "# Start: importing and building",
        "",
        "Written by the command below; no number here was typed. Each import ran in fresh",
        "processes after torch was imported, by CPU time: the median, and the fastest and slowest.",
        "Nothing is compiled at import or at first use.",
        "",
        machine_table(" ".join(["python", *sys.argv]), loads),
        "",
        "| what | CPU, ms | fastest – slowest |",
        "| --- | ---: | ---: |",
    ]
    for name, seconds in times.items():
        low, high = 1e3 * min(seconds), 1e3 * max(seconds)
        lines.append(
            f"| {name} | {1e3 * statistics.median(seconds):.1f} | {low:.1f} – {high:.1f} |"
        )
    alone = 1e3 * statistics.median(times["loading the core alone"])
    verdict = "met" if alone < 20 else "missed"
    lines += [
        "",
        f"Goal: the core loads in under 20 ms: {verdict}, {alone:.1f} ms ({size / 2**20:.1f} MiB).",
    ]
    if built is not None:
        wall, cpu = built
        compiler = os.environ.get("CXX", "the system's compiler")
        verdict = "met" if wall < 60 else "missed"
        lines += [
            "",
            f"Goal: the core builds in under 60 s on two cores: {verdict}, {wall:.0f} s by the wall"
            f" clock and {cpu:.0f} s of CPU time, from nothing, with {compiler}"
            " (`cmake --build --parallel 2`). On a busy machine the wall clock says little:"
            " on two free cores it lies between half the CPU time and the longest single file.",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
