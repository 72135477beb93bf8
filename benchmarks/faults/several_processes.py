"""Several processes train what one does; one fails, and torchrun starts all of them again."""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from faults import Case, Suite, count_of, patience, temporary_folder

FAILURES = 16  # in full
FAULTS = ("kill", "raise", "hang", "exit")
STEPS, START = 21, 60.0  # of a training; seconds for the start of the processes, on a busy machine
RESULTS = ("final.safetensors", "model.safetensors", "metrics.jsonl")
TOLERANCE = 1e-12  # sums of float64 in another order
PATIENCE = 20  # seconds until a process that does not take part counts as lost
WORKER = Path(__file__).parents[1] / "ddp_training.py"


@functools.cache
def folder() -> Path:
    """Return the folder of the runs."""
    return temporary_folder()


def cases(seed: int, share: float) -> Iterator[Case]:
    """Return the comparisons, and failures of all kinds in turn."""
    for processes in (2, 3):
        name = f"{processes} processes"
        yield Case("equal to one process", name, partial(compare, processes))
    for i in range(count_of(share, FAILURES)):
        draw = random.Random(f"processes {seed} {i}")
        processes, fault = (3, 2, 2, 2)[i // len(FAULTS) % 4], FAULTS[i % len(FAULTS)]
        rank, step = draw.randrange(processes), draw.randint(2, STEPS - 1)
        name = f"{i} {fault} of {rank} in {processes} at {step}"
        yield Case("a process fails", name, partial(fail, processes, fault, rank, step))


def compare(processes: int) -> None:
    """Train in several processes what one does, without dropout, which differs between them."""
    from safetensors.torch import load_file

    one, several = (_trained(n, "0.0") / "final.safetensors" for n in (1, processes))
    expected, found = load_file(one), load_file(several)
    assert expected.keys() == found.keys(), "other names of weights"
    worst = max(float((expected[n] - found[n]).abs().max()) for n in expected)
    assert worst <= TOLERANCE, f"weights differ by {worst:.1e}"


def fail(processes: int, fault: str, rank: int, step: int) -> None:
    """Let one of the processes fail at a step, and compare what torchrun completes."""
    expected = _trained(processes, "0.5")
    place = Path(tempfile.mkdtemp(dir=folder()))
    run = _run(place / "run", processes, "0.5", fault, rank, step)
    for name in RESULTS:
        same = (run / name).read_bytes() == (expected / name).read_bytes()
        assert same, f"{name} is other than without a failure"
    assert not list(run.rglob("*.tmp")), "a temporary file is left over"
    shutil.rmtree(place)


@functools.cache
def _trained(processes: int, dropout: str) -> Path:
    """Return the run of an undisturbed training."""
    return _run(folder() / f"{processes} {dropout}", processes, dropout, "none", 0, 0)


def _run(run: Path, processes: int, dropout: str, fault: str, rank: int, step: int) -> Path:
    """Train by torchrun with two restarts; return the run folder."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)),
        *("--max-restarts", "2", "--monitor-interval", "0.2", "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", "127.0.0.1:0", str(WORKER)),
        *(str(run), dropout, str(round(patience(PATIENCE))), fault, str(rank), str(step)),
    ]
    variables = {
        "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # a restart must not find old addresses
    }  # fmt: skip
    seconds = patience(2 * START + (PATIENCE + 15 if fault != "none" else 0))
    log, start = run.with_suffix(".log"), time.monotonic()
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, env={**os.environ, **variables}, stdout=output, stderr=output,
            start_new_session=True,
        ) as process,
    ):  # fmt: skip
        code = None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    spent = time.monotonic() - start
    text = log.read_text(encoding="utf-8", errors="replace")
    assert code == 0, f"exit code {code} after {spent:.0f} s: {text[-200:]}"
    return run


SUITES = {
    "several_processes": Suite(
        "Several gloo processes: weights within 1e-12 of those of one process; where one is "
        "killed, raises, hangs or ends, no hang, and torchrun's restart gives the same result to "
        "the bit",
        cases,
    )
}
