"""Kill -9 at any moment, resume, and nothing is lost, doubled or different.

`benchmarks/faults/interrupted.py` does it to every command, and many more times.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from representer.storage import checkpoint

Digests = Callable[[Path], dict[str, str]]
STAGES = ("opened", "begun", "written", "synced", "replaced", "recorded", "pruned")


def campaign(
    server: Any,
    digests: Digests,
    folder: Path,
    uninterrupted: Any,
    *,
    kills: int,
    seed: int,
) -> int:
    """Kill so many times, at random moments and every fifth time within a save; compare each run.

    Returns:
        How many runs were completed.
    """
    draw = random.Random(seed)
    done = runs = 0
    while done < kills or runs == 0:
        out = folder / f"run-{runs}"
        is_over = False
        while not is_over:
            options: dict[str, Any] = {"resume": True}
            is_armed = done % 5 == 1
            if done < kills and is_armed:
                stage = draw.choice(STAGES)
                options["failpoint"] = f"ckpt.{stage}:{draw.randint(2, 5)}:kill"
            pid = server.start("train", out, **options)
            if done < kills and not is_armed:
                time.sleep(draw.uniform(0, uninterrupted.seconds))
                os.kill(pid, signal.SIGKILL)
            code = server.wait(pid)
            assert code in (0, -signal.SIGKILL), out.with_name(f"{out.name}.log").read_text()
            done += code != 0
            is_over = code == 0
            assert is_over or not_damaged(out)
        assert digests(out) == uninterrupted.digests
        assert not list(out.rglob("*.tmp"))
        runs += 1
    return runs


def not_damaged(out: Path) -> bool:
    """Say whether every checkpoint that is there can be loaded."""
    folder = out / "checkpoints"
    for step in checkpoint.steps(folder):
        checkpoint.load(checkpoint.path_of_step(folder, step))
    return True


def test_the_reference_has_more_than_one_best(uninterrupted: Any) -> None:
    """Otherwise the campaign could not see best weights that are kept wrongly."""
    lines = (uninterrupted.folder / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    best = max(range(len(rows)), key=lambda i: rows[i]["accuracy"])
    assert 3 < best < len(rows) - 1


def test_4_kills_leave_the_result_identical_to_the_bit(
    server: Any, digests: Digests, uninterrupted: Any, tmp_path: Path
) -> None:
    assert campaign(server, digests, tmp_path, uninterrupted, kills=4, seed=1) >= 1


@pytest.mark.parametrize("stage", STAGES)
def test_a_kill_at_any_stage_of_a_save_leaves_a_good_checkpoint(
    server: Any, tmp_path: Path, stage: str
) -> None:
    for step in (1, 2):
        assert server.run("save", tmp_path, step=step) == 0
    code = server.run("save", tmp_path, step=3, failpoint=f"ckpt.{stage}:kill")
    assert code == -signal.SIGKILL
    found = checkpoint.latest(tmp_path, report=pytest.fail)
    assert found is not None
    assert found.step == (3 if stage in ("replaced", "recorded", "pruned") else 2)
    assert torch.equal(found.state["weights"], torch.full((50,), float(found.step)))


def test_runs_that_race_for_one_folder_leave_exactly_one(server: Any, tmp_path: Path) -> None:
    """The one that has it stops until the other has seen it, however late that is."""
    out, start_at = tmp_path / "run", time.time() + 0.05
    log = out.with_name(f"{out.name}.log")
    log.touch()
    stops = {"signal_at": ["load", 1], "signals": [signal.SIGSTOP]}
    pids = [server.start("train", out, start_at=start_at, **stops) for _ in range(2)]
    deadline, refused = time.monotonic() + 120, f"{out} is in use by process "
    try:
        while refused not in log.read_text() or not any(map(is_stopped, pids)):
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert sorted(server.wait(pid) for pid in pids) == [0, 73]
    assert "Traceback" not in log.read_text()


def is_stopped(pid: int) -> bool:
    return "State:\tT" in Path(f"/proc/{pid}/status").read_text()


def test_the_lock_of_a_killed_run_does_not_stay(server: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert server.run("train", out, failpoint="ckpt.synced:3:kill") == -signal.SIGKILL
    assert list((out / "checkpoints").glob(".*.tmp"))
    assert server.run("train", out, resume=True) == 0
    assert not list(out.rglob("*.tmp"))
