"""Run the fast tests in random orders, with several numbers of workers, on each instruction set.

``python tools/test_orders.py --out build/test-orders.md`` runs the rows that the page does
not have yet and writes each one's closing line. Orders and numbers of workers are combined in full;
the instruction sets take turns, so that each of them meets each number of workers.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import torch

from representer.ops import core

HEAD = """# The fast tests in random orders

Written by `{command}` with torch {torch} on
{cores} cores. Each row is one run of `pytest` over the whole fast suite: the order of all tests is
shuffled by the seed, and `REPRESENTER_INSTRUCTION_SET` selects the instruction set of the
C++ core; the sets take turns, so that each of them meets each number of workers. A fixture fails
every test that leaves process-wide state changed.

| instruction set | workers | seed | closing line | commit |
| --- | ---: | ---: | --- | --- |
"""


def main() -> int:
    """Run the missing rows of the grid; return 1 if a run failed."""
    parser = argparse.ArgumentParser(description="Run the fast tests in random orders.")
    parser.add_argument("--out", type=Path, required=True, help="page to write and continue from")
    parser.add_argument("--seeds", type=int, default=5, help="number of random orders")
    parser.add_argument("--workers", default="1,2,4", help="numbers of workers, with commas")
    parser.add_argument("--sets", default=",".join(core.USABLE), help="instruction sets")
    chosen = parser.parse_args()
    commit = _output("git", "describe", "--always", "--dirty")
    head = HEAD.format(
        command="python tools/test_orders.py --out build/test-orders.md",
        torch=torch.__version__,
        cores=os.cpu_count(),
    )
    rows = _rows(chosen.out)
    failed = False
    counts, sets = [int(count) for count in chosen.workers.split(",")], chosen.sets.split(",")
    for turn, (seed, workers) in enumerate(product(range(1, chosen.seeds + 1), counts)):
        name = sets[(turn + (turn // len(counts))) % len(sets)]
        if (name, workers, seed) in rows:
            continue
        code, line = run(name, workers, seed)
        print(f"{name}, {workers} workers, seed {seed}: {line}", flush=True)
        failed |= code != 0
        rows[name, workers, seed] = f"| {name} | {workers} | {seed} | {line} | {commit} |"
        chosen.out.write_text(head + "\n".join(rows[key] for key in sorted(rows)) + "\n")
    return int(failed)


def run(name: str, workers: int, seed: int) -> tuple[int, str]:
    """Return the exit code and the closing line of one run of the fast tests."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--dist", "worksteal"]
    command += ["--random-order-bucket=global", f"--random-order-seed={seed}"]
    environment = os.environ | {"REPRESENTER_INSTRUCTION_SET": name}
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        print(done.stdout[-20000:], flush=True)
    last = done.stdout.strip().splitlines()[-1].strip("= ")
    return done.returncode, f"{last} ({time.monotonic() - start:.0f} s in all)"


def _rows(page: Path) -> dict[tuple[str, int, int], str]:
    if not page.is_file():
        return {}
    lines = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| .*$", page.read_text(), re.MULTILINE)
    whole = re.findall(r"^\| \w+ \| \d+ \| \d+ \| .*$", page.read_text(), re.MULTILINE)
    return {(a, int(b), int(c)): row for (a, b, c), row in zip(lines, whole, strict=True)}


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
