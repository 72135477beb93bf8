"""The recipe that trains until something is not finite: batches, outcomes, the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from papers.language_text import write_text
from representer.errors import TrainingError
from representer.tasks.recipe import Request
from representer.training.config import TrainingTask
from representer.training.trainer import StepOutcome, Trainer, TrainingStep
from representer_papers.rkm2019 import RECIPES, divergence

RECIPE = RECIPES["rkm-divergence"]


@pytest.fixture
def request_(tmp_path) -> Request:
    data = write_text(tmp_path / "data")
    return Request(data, tmp_path / "out", smoke=True, threads=1, cells=("rkm-lstm",))


def test_blocks_are_the_batches_of_the_epochs_in_their_order():
    epochs = [[[(epoch, step)] for step in range(10 + epoch)] for epoch in range(9)]
    task = TrainingTask(lambda epoch: epochs[epoch], list, lambda *_: None, lambda *_: {})  # type: ignore[arg-type]
    blocks = divergence._in_blocks(task)
    found = [step for block in range(3) for step in blocks.batches(block)]
    assert found == [step for epoch in epochs for step in epoch][: 3 * divergence.BLOCK]


def test_a_finite_run_has_its_steps_loss_and_largest_state(request_):
    lines = RECIPE.run(request_).read_text("utf-8").splitlines()
    row = next(line for line in lines if line.startswith("| RKM-LSTM |"))
    steps = 2 * divergence.BLOCK
    assert "| 1150 units, SGD at 30 | 0 | " in row
    assert f"| finite | {steps} | " in row
    seen = json.loads((request_.out / "rkm-lstm-seed0" / "metrics.json").read_text())
    assert 0 < seen["train_loss"] < 10
    assert seen["largest_state"] > 0


def test_a_run_that_diverges_is_a_result_and_is_not_repeated(request_, monkeypatch):
    def diverge(self: Trainer) -> None:
        raise TrainingError("the loss is nan at step 7 (epoch 1, batch 7). Nothing was saved.")

    monkeypatch.setattr(Trainer, "fit", diverge)
    assert "| diverged: the loss is nan at step 7 |" in RECIPE.run(request_).read_text("utf-8")
    settings = divergence._settings(3, request_, "rkm-lstm", 0)  # more steps
    monkeypatch.setattr(divergence, "_settings", lambda *_: settings)
    monkeypatch.setattr(Trainer, "fit", lambda self: pytest.fail("it was trained again"))
    assert "at step 7 |" in RECIPE.run(request_).read_text("utf-8")


def test_the_last_measurement_before_a_fault_is_kept(request_, monkeypatch):
    step = TrainingStep.__call__

    def fail(self: TrainingStep, description) -> Callable[[], StepOutcome]:
        calls.append(outcome := step(self, description)())
        is_late = len(calls) == divergence.BLOCK + 2
        return lambda: replace(outcome, fault="the loss is nan") if is_late else outcome

    calls: list[StepOutcome] = []
    monkeypatch.setattr(TrainingStep, "__call__", fail)
    found = RECIPE.run(request_).read_text("utf-8")
    at = divergence.BLOCK
    assert f"| diverged: the loss is nan at step {at + 2} | {at} | " in found


def test_a_longer_run_continues_a_shorter_one(request_, monkeypatch):
    monkeypatch.setattr(divergence, "_SMOKE", {**divergence._SMOKE, "lr": 1.0})
    RECIPE.run(request_)
    settings = divergence._settings(3, request_, "rkm-lstm", 0)
    monkeypatch.setattr(divergence, "_settings", lambda *_: settings)
    table = RECIPE.run(request_).read_text("utf-8")
    assert f"| finite | {3 * divergence.BLOCK} | " in table
    log = (request_.out / "rkm-lstm-seed0" / "metrics.jsonl").read_text().splitlines()
    assert len(log) == 3


def test_the_largest_state_is_that_of_the_carried_states(request_):
    from representer.options.language import LanguageConfig
    from representer.storage.run import UnsavedRun
    from representer.tasks.language import FLOW

    options = divergence._settings(1, request_, "lstm", 0)["options"]
    config = LanguageConfig(data=str(request_.data / "ptb"), **options)
    data = FLOW.prepare(config)
    parameters = FLOW.new_estimator(UnsavedRun(), config, data)
    network = parameters.new_network(0)
    task = divergence.training_task_of(parameters, data, network, 0)
    assert task.carried is not None
    task.loss(network, task.load(task.batches(0)[0]))
    task.carried.value[0].c[0, 0, 0] = -50.0
    assert task.evaluate(network, lambda: None) == {"largest_state": 50.0}
    assert torch.isfinite(task.carried.value[0].h).all()
