"""torch.compile of the eager loop, in a child process with a time limit.

``python compiled.py CASE MODE REPEATS`` prints what it measured as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import torch

from cases import SIZES, UNBOUND, layers, run
from timing import Candidate, interleave

COMPILED = "torch.compile of it"


@dataclass(frozen=True)
class Compiled:
    """Outcome of compiling; median milliseconds by candidate, empty if it did not finish."""

    case: str
    mode: str
    outcome: str
    milliseconds: dict[str, float]


def compile_in_child(case: str, mode: str, repeats: int, limit: int) -> Compiled:
    """Compile and time in a child process that is killed after ``limit`` seconds."""
    command = [sys.executable, __file__, case, mode, str(repeats)]
    with tempfile.TemporaryDirectory() as cache:  # so that compiling starts from nothing
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache}
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
            start_new_session=True,
        )  # fmt: skip
        try:
            out, err = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # its session: it and its compilers
            child.communicate()
            return Compiled(case, mode, f"not finished in {limit} s", {})
    if child.returncode:
        return Compiled(case, mode, f"failed: {err.strip().splitlines()[-1]}", {})
    found = json.loads(out.splitlines()[-1])
    return Compiled(case, mode, f"{found['seconds']:.0f} s", found["milliseconds"])


def main(case: str, mode: str, repeats: str) -> None:
    """Compile, then time the loop, the compiled loop and our cell, by CPU time on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    size = SIZES[case]
    made = layers(size, eager=True)
    kept = {name: made[name] for name in (UNBOUND, "nn.LSTM", "RKM-LSTM")}
    started = time.perf_counter()
    compiled = run(torch.compile(made[UNBOUND]), size, mode)  # type: ignore[arg-type]
    compiled()
    seconds = time.perf_counter() - started
    candidates = [Candidate(name, run(layer, size, mode)) for name, layer in kept.items()]
    candidates.append(Candidate(COMPILED, compiled))
    rounds = interleave(candidates, time.process_time, int(repeats), int(repeats))
    medians = {name: 1e3 * rounds.spread(name).median for name in rounds.seconds}
    print(json.dumps({"seconds": seconds, "milliseconds": medians}))


if __name__ == "__main__":
    main(*sys.argv[1:])
