"""Several processes that train one model."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from small_training import INPUTS, fit, model

from representer.errors import ArgumentError, TrainingError
from representer.storage import atomic
from representer.storage import run as run_folder
from representer.training import state as workers
from representer.training.config import TrainerConfig
from saved_weights import read_weights

WORKER = Path(__file__).with_name("training_worker.py")


def train(folder: Path, processes: int, **options: Any) -> dict[str, torch.Tensor]:
    """Train with so many processes, and return the final weights."""
    assert run(folder, processes, **options) == [0] * processes
    return read_weights(folder / "run" / "final.safetensors")[0]


def run(folder: Path, processes: int, **options: Any) -> list[int]:
    """Run so many processes, as torchrun starts them, and return their exit codes."""
    job = {"job": "train", "out": str(folder / "run"), "double": True, **options}
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(processes):
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes)}
        environment = {**os.environ, **shared, **own, "ACCELERATE_USE_CPU": "true"}
        command = [sys.executable, str(WORKER), "run", str(folder / "job.json")]
        children.append(subprocess.Popen(command, env=environment))
    try:
        return [child.wait(timeout=600) for child in children]
    finally:
        for child in children:
            child.kill()  # one that waits for another that has failed


@pytest.mark.parametrize(
    ("variables", "is_main"),
    [
        ({}, True),
        ({"RANK": "1"}, True),  # left over from something else: there is no group
        ({"RANK": "1", "WORLD_SIZE": "1"}, True),
    ],
)
def test_accelerate_decides_who_writes(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], is_main: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert atomic.is_main_process() is is_main


def test_a_training_without_a_writing_process_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers.require_agreement(True, is_writer=True)
    workers.require_agreement(False, is_writer=False)
    monkeypatch.setattr(run_folder, "is_main_process", lambda: False)
    with pytest.raises(TrainingError, match="does not write the run folder, but is the main"):
        fit(tmp_path / "run")


def test_accelerate_takes_the_device_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for device in (torch.device("meta"), torch.device("cpu")):
        monkeypatch.setattr(workers, "require_device", lambda name, processes, d=device: d)
        assert workers.accelerator_for(TrainerConfig()).device == device


def test_a_device_without_kernels_is_reported() -> None:
    said: list[str] = []
    for name in ("cpu", "cuda", "mps"):
        workers.report_device(torch.device(name), said.append)
    assert said == [
        "device mps: the operations have no kernels for it and run on the reference backend"
    ]


def test_float16_is_refused_on_the_cpu() -> None:
    with pytest.raises(ArgumentError, match="'fp16'; expected no or bf16 on the CPU"):
        workers.accelerator_for(TrainerConfig(device="cpu", mixed_precision="fp16"))


def test_mixed_precision_computes_products_in_16_bits_while_training_only(tmp_path: Path) -> None:
    network, seen = model(), []
    next(network.children()).register_forward_hook(
        lambda layer, given, output: seen.append(output.dtype)
    )
    AcceleratorState._reset_state()  # the precision of this process
    try:
        fit(tmp_path / "run", network=network, mixed_precision="bf16", epochs=1)
    finally:
        AcceleratorState._reset_state()
    assert set(seen) == {torch.bfloat16}
    network(INPUTS)
    assert seen[-1] == torch.float32
    assert {p.dtype for p in network.parameters()} == {torch.float32}


@pytest.mark.slow
def test_two_and_three_processes_train_what_one_does(tmp_path: Path) -> None:
    """Batches of 8 in parts of 4 or of 3, 3 and 2, and a last one of 6; float64.

    Dropout is off, for it differs between processes.
    """
    weights, curves = [], []
    for processes in (1, 2, 3):
        folder = tmp_path / str(processes)
        folder.mkdir()
        weights.append(train(folder, processes, dropout=0.0, config={"average_weights": True}))
        lines = (folder / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
        curves.append([[row["train_loss"], row["accuracy"]] for row in map(json.loads, lines)])
    one, *others = weights
    for several in others:
        for name in one:
            torch.testing.assert_close(one[name], several[name], rtol=0, atol=1e-12)
    np.testing.assert_allclose(curves[1:], [curves[0]] * 2, rtol=0, atol=1e-12)
    assert len(curves[0]) == 18
    assert len({loss for loss, _ in curves[0]}) == 18


@pytest.mark.slow
def test_two_processes_resume_to_the_bit(tmp_path: Path) -> None:
    """With dropout, whose random states are those of each process."""
    for name, epochs in (("whole", [4]), ("parts", [2, 4])):
        (tmp_path / name).mkdir()
        for count in epochs:
            train(tmp_path / name, 2, config={"epochs": count}, resume=count != epochs[0])
    for file in ("final.safetensors", "model.safetensors", "metrics.jsonl"):
        contents = [(tmp_path / name / "run" / file).read_bytes() for name in ("whole", "parts")]
        assert contents[0] == contents[1]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "load"), [("load", 9), ("evaluate", 10)])
@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_signal_to_one_process_saves_and_ends_both(
    tmp_path: Path, rank: str, place: str, load: int
) -> None:
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    train(tmp_path / "whole", 2, config={"epochs": 2})
    signal_at = {"signal_at": [place, load], "signal_rank": rank, "signals": [15]}
    assert run(tmp_path / "parts", 2, config={"epochs": 2}, **signal_at) == [143, 143]
    train(tmp_path / "parts", 2, config={"epochs": 2}, resume=True)
    for file in ("final.safetensors", "model.safetensors", "metrics.jsonl"):
        contents = [(tmp_path / name / "run" / file).read_bytes() for name in ("whole", "parts")]
        assert contents[0] == contents[1]
