"""The trainer: learning, files, early stopping, and what stops it before harm is done."""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_training import INPUTS, LABELS, accuracy, config, fit, loss, model, rows, scripted, task
from torch import Tensor, nn

from representer.errors import ArgumentError, CheckpointError, DataError, KindError, TrainingError
from representer.storage import checkpoint
from representer.storage.run import RunFolder
from representer.training import generators, trainer
from representer.training.config import TrainerConfig, require_same
from representer.training.trainer import Trainer
from saved_weights import read_weights


def test_it_learns_and_returns_the_reason_for_its_end(tmp_path: Path) -> None:
    network = model()
    result = fit(tmp_path, network=network, epochs=10)
    assert (result.step, result.epoch, result.reason) == (70, 10, "epochs")
    assert result.best is not None
    assert result.best["accuracy"] > 0.9 > 0.7 > accuracy(model(), lambda: None)["accuracy"]
    assert result.rows == rows(tmp_path)
    assert network.training


def test_csv_and_jsonl_hold_the_same_rows_and_times_are_kept_apart(tmp_path: Path) -> None:
    fit(tmp_path, evaluate_every=5)
    with (tmp_path / "metrics.csv").open(encoding="utf-8", newline="") as file:
        table = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    assert table == rows(tmp_path)
    assert [row["step"] for row in table] == [5, 7, 10, 14, 15, 20, 21]
    assert [row["epoch"] for row in table] == [1, 1, 2, 2, 3, 3, 3]
    times = [json.loads(line) for line in (tmp_path / "timings.jsonl").read_text().splitlines()]
    peaks = [row["peak_mib"] for row in times]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    assert 50 < peaks[0] <= peaks[-1] <= most
    assert [time["step"] for time in times] == [5, 7, 10, 14, 15, 20, 21]
    assert all(set(time) == {"step", "seconds", "peak_mib"} for time in times)


def test_the_training_loss_is_the_mean_over_examples_with_an_uneven_last_batch(
    tmp_path: Path,
) -> None:
    network = nn.Linear(4, 2)
    start = loss(network, (INPUTS, LABELS))[0].item()
    fit(tmp_path, network=network, epochs=1, lr=1e-30)
    assert rows(tmp_path)[0]["train_loss"] == pytest.approx(start, rel=1e-6)


def test_model_safetensors_has_the_best_weights_and_final_the_last(tmp_path: Path) -> None:
    network = model()
    seen: list[dict[str, Tensor]] = []
    values = iter([0.5, 0.75, 0.75, 0.625])

    def evaluate(module: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        seen.append({name: value.clone() for name, value in module.state_dict().items()})
        return {"accuracy": next(values)}

    with RunFolder(tmp_path) as run:
        fitted = Trainer(network, task(evaluate=evaluate), config(epochs=4), run)
        result = fitted.fit()
        assert result.best == result.rows[1]
        best, row = read_weights(tmp_path / "model.safetensors")
        assert row == rows(tmp_path)[1]
        assert all(torch.equal(best[name], seen[1][name]) for name in best)
        final, row = read_weights(tmp_path / "final.safetensors")
        assert row == rows(tmp_path)[3]
        assert all(torch.equal(final[name], seen[3][name]) for name in final)
        assert all(torch.equal(final[n], v) for n, v in network.state_dict().items())
        fitted.restore_best()
    assert all(torch.equal(best[name], v) for name, v in network.state_dict().items())


def test_lower_can_be_better(tmp_path: Path) -> None:
    evaluate = scripted([0.5, 0.2, 0.3])
    result = fit(tmp_path, task=task(evaluate=evaluate), direction="min")
    assert result.best == rows(tmp_path)[1]


def test_patience_ends_a_training_that_no_longer_improves(tmp_path: Path) -> None:
    evaluate = scripted([0.5, 0.6, 0.6, 0.55, 0.9])
    result = fit(tmp_path, task=task(evaluate=evaluate), epochs=9, patience=2)
    assert (result.reason, result.epoch, len(result.rows)) == ("patience", 4, 4)


def test_a_collapse_ends_a_training_at_once(tmp_path: Path) -> None:
    evaluate = scripted([0.5, 0.75, 0.65, 0.625, 0.9])
    result = fit(tmp_path, task=task(evaluate=evaluate), epochs=9, max_drop=0.125)
    assert (result.reason, result.epoch) == ("max_drop", 4)


def test_the_learning_rate_falls_after_every_epoch(tmp_path: Path) -> None:
    seen = []

    class Watched(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            seen.append(self.param_groups[0]["lr"])
            return super().step(closure)

    network = model()
    optimizer = Watched(network.parameters(), lr=0.5)
    with RunFolder(tmp_path) as run:
        Trainer(network, task(), config(lr_decay=0.5, epochs=3), run, optimizer=optimizer).fit()
    assert seen == [0.5] * 7 + [0.25] * 7 + [0.125] * 7


def test_max_steps_ends_it_with_an_evaluation(tmp_path: Path) -> None:
    result = fit(tmp_path, max_steps=9)
    assert (result.reason, result.step, result.epoch) == ("max_steps", 9, 1)
    assert [row["step"] for row in rows(tmp_path)] == [7, 9]


def test_a_metric_that_is_not_finite_is_never_the_best_and_is_null_in_the_files(
    tmp_path: Path,
) -> None:
    evaluate = scripted([float("nan"), 0.5, float("nan")])
    result = fit(tmp_path, task=task(evaluate=evaluate))
    assert [row["accuracy"] for row in rows(tmp_path)] == [None, 0.5, None]
    assert result.best == result.rows[1]


def test_without_a_best_the_final_weights_are_the_model(tmp_path: Path) -> None:
    result = fit(tmp_path, task=task(evaluate=scripted([float("nan")] * 3)))
    assert result.best is None
    one, other = (tmp_path / name for name in ("model.safetensors", "final.safetensors"))
    assert one.read_bytes() == other.read_bytes()


def test_an_evaluation_sees_the_model_without_dropout_and_gradients(tmp_path: Path) -> None:
    seen = []

    def evaluate(module: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        seen.append((module.training, torch.is_grad_enabled()))
        return {"accuracy": 1.0}

    fit(tmp_path, task=task(evaluate=evaluate))
    assert seen == [(False, False)] * 3


def test_seeds_decide(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        fit(tmp_path / name, seed=seed)
    files = [(tmp_path / name / "final.safetensors").read_bytes() for name in "abc"]
    assert files[0] == files[1] != files[2]


def test_outcomes_read_a_step_later_change_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"checkpoint_every_steps": 3, "evaluate_every": 5, "clip_norm": 0.5}
    fit(tmp_path / "now", **settings)
    monkeypatch.setattr(trainer, "can_read_later", lambda accelerator, optimizer: True)
    fit(tmp_path / "later", **settings)
    for name in ("final.safetensors", "metrics.jsonl"):
        now, later = ((tmp_path / run / name).read_bytes() for run in ("now", "later"))
        assert now == later


def test_a_step_on_the_device_does_not_wait_for_its_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    step = trainer.TrainingStep.__call__

    def noted(self: Any, description: Any) -> Any:
        order.append("step")
        with monkeypatch.context() as inside:
            inside.setattr(Tensor, "item", lambda self: pytest.fail("the step waits"))
            found = step(self, description)

        def read() -> Any:
            order.append("read")
            return found()

        return read

    monkeypatch.setattr(trainer, "can_read_later", lambda accelerator, optimizer: True)
    monkeypatch.setattr(trainer.TrainingStep, "__call__", noted)
    fit(tmp_path, epochs=1)
    assert order == ["step", *["step", "read"] * 6, "read"]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_before_the_update(
    tmp_path: Path, bad: float, later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if later:
        monkeypatch.setattr(trainer, "can_read_later", lambda accelerator, optimizer: True)
    network = model()
    count = [0]

    def explode(module: nn.Module, batch: Any) -> tuple[Tensor, int]:
        count[0] += 1
        value, size = loss(module, batch)
        return value * (bad if count[0] == 10 else 1.0), size

    with pytest.raises(TrainingError) as caught:
        fit(tmp_path, network=network, task=task(loss=explode))
    message = str(caught.value)
    assert message.startswith(f"the loss is {bad} at step 10 (epoch 2, batch 3). ")
    assert str(checkpoint.path_of_step(tmp_path / "checkpoints", 7)) in message
    assert "Lower --lr" in message
    assert all(torch.isfinite(p).all() for p in network.parameters())
    assert caught.value.exit_code == 70


@pytest.mark.parametrize("later", [False, True])
def test_a_gradient_that_is_not_finite_stops_before_the_update(
    tmp_path: Path, later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if later:
        monkeypatch.setattr(trainer, "can_read_later", lambda accelerator, optimizer: True)
    network = model()

    def explode(module: nn.Module, batch: Any) -> tuple[Tensor, int]:
        value, size = loss(module, batch)
        return (value * 0).sqrt() * 0 + 1, size  # 1 itself; its gradient is 0 times infinity

    with pytest.raises(TrainingError, match=r"the norm of the gradient is nan at step 1 "):
        fit(tmp_path, network=network, task=task(loss=explode))
    assert all(torch.isfinite(p).all() for p in network.parameters())


@pytest.mark.parametrize(("option", "order"), [("clip_norm", 2), ("clip_value", float("inf"))])
def test_gradients_are_clipped(tmp_path: Path, option: str, order: float) -> None:
    network = nn.Linear(4, 2)
    before = [p.detach().clone() for p in network.parameters()]
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    with RunFolder(tmp_path) as run:
        settings = config(epochs=1, max_steps=1, **{option: 1e-3})
        Trainer(network, task(), settings, run, optimizer=optimizer).fit()
    moves = [(p - q).flatten() for p, q in zip(network.parameters(), before, strict=True)]
    assert torch.cat(moves).norm(order).item() == pytest.approx(1e-3, rel=1e-3)


def test_a_metric_to_monitor_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(
        ArgumentError, match=r"monitor is 'f1'; expected one of the metrics accuracy"
    ):
        fit(tmp_path, monitor="f1")


def test_a_metric_must_be_a_number(tmp_path: Path) -> None:
    evaluate: Any = scripted(["high"])  # type: ignore[list-item]
    with pytest.raises(KindError, match="metric 'accuracy' is str; expected a number"):
        fit(tmp_path, task=task(evaluate=evaluate))


def test_an_epoch_must_have_a_batch(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"batches\(epoch\) is \[\]; expected at least one"):
        fit(tmp_path, task=task(batches=lambda epoch: []))


def test_settings_must_be_plain(tmp_path: Path) -> None:
    with pytest.raises(KindError, match="settings is not plain"):
        fit(tmp_path, settings={"model": model()})


def test_the_default_optimizer_is_adam_with_the_configured_rate_and_weight_decay(
    tmp_path: Path,
) -> None:
    weights = {}
    for name in ("default", "explicit"):
        network = model()
        adam = torch.optim.Adam(network.parameters(), 0.05, weight_decay=0.5, fused=True)
        with RunFolder(tmp_path / name) as run:
            Trainer(
                network, task(), config(epochs=1, weight_decay=0.5 if name == "default" else 0.0),
                run, optimizer=None if name == "default" else adam,
            ).fit()  # fmt: skip
        weights[name] = network[0].weight
    torch.testing.assert_close(weights["default"], weights["explicit"], rtol=0, atol=0)


def test_frozen_parameters_stay(tmp_path: Path) -> None:
    network = model()
    frozen = network[0].requires_grad_(False)  # type: ignore[index]
    before = frozen.weight.clone()
    fit(tmp_path, network=network, weight_decay=0.1)
    assert torch.equal(frozen.weight, before)
    with pytest.raises(ArgumentError, match="model is 'Linear'; expected a model with parameters"):
        fit(tmp_path / "frozen", network=frozen)


def test_frozen_parts_stay_in_evaluation_mode(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 2))
    network[1].eval()
    modes = []

    def watched(module: nn.Module, batch: Any) -> tuple[Tensor, int]:
        modes.append([part.training for part in module.modules()])
        return loss(module, batch)

    fit(tmp_path / "run", task=task(loss=watched), network=network, epochs=2)
    assert modes
    assert all(mode == [True, True, False, True, True] for mode in modes)
    statistics = network[1].get_buffer("running_mean")
    assert torch.equal(statistics, torch.zeros(8))


@pytest.mark.parametrize("is_ready", [True, False])
def test_a_model_in_evaluation_mode_is_trained_in_training_mode(
    tmp_path: Path, is_ready: bool
) -> None:
    network, modes = model().train(is_ready), []

    def watched(module: nn.Module, batch: Any) -> tuple[Tensor, int]:
        modes.append(all(part.training for part in module.modules()))
        return loss(module, batch)

    fit(tmp_path / "run", task=task(loss=watched), network=network, epochs=2)
    assert modes
    assert all(modes)


def test_checkpoints_are_also_saved_by_the_clock(tmp_path: Path) -> None:
    kept = []

    def load(indices: Any) -> Any:
        kept.append(checkpoint.steps(tmp_path / "checkpoints"))
        return INPUTS[indices], LABELS[indices]

    fit(tmp_path, task=task(load=load), checkpoint_every_seconds=1e-9, epochs=1)
    assert kept == [[0], [0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6]]


def test_the_clock_starts_again_with_every_checkpoint(tmp_path: Path, monkeypatch: Any) -> None:
    now = 0.0
    monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=lambda: now))

    def load(indices: Any) -> Any:
        nonlocal now
        now += 1
        return INPUTS[indices], LABELS[indices]

    options = {"checkpoint_every_seconds": 3, "keep_checkpoints": 9, "epochs": 1}
    fit(tmp_path, task=task(load=load), **options)
    assert checkpoint.steps(tmp_path / "checkpoints") == [0, 3, 6, 7]


def test_the_number_of_checkpoints_to_keep_is_configured(tmp_path: Path) -> None:
    fit(tmp_path, keep_checkpoints=3, epochs=4)
    assert checkpoint.steps(tmp_path / "checkpoints") == [14, 21, 28]


def test_another_precision_in_one_process_is_refused_with_the_reason(tmp_path: Path) -> None:
    fit(tmp_path / "a", epochs=1)
    with pytest.raises(
        ArgumentError, match=r"mixed_precision is 'bf16'.* allows one precision per process"
    ):
        fit(tmp_path / "b", mixed_precision="bf16")


# The trainer's configuration: its ranges, and what a resumed run may change.


@pytest.mark.parametrize(("name", "value"), [
    ("epochs", 0), ("max_steps", 0), ("lr", 0.0), ("lr", -1.0), ("lr", float("inf")),
    ("lr", float("nan")), ("weight_decay", -0.1), ("lr_decay", 0.0), ("lr_decay", float("nan")),
    ("max_drop", 0.0), ("max_drop", float("inf")), ("clip_norm", 0.0), ("clip_value", -1.0),
    ("evaluate_every", 0), ("checkpoint_every_steps", 0), ("checkpoint_every_seconds", 0.0),
    ("keep_checkpoints", 0), ("patience", 0), ("threads", 0), ("threads", 100_000_000),
    ("direction", "up"), ("device", "tpu"), ("mixed_precision", "fp8"),
])  # fmt: skip
def test_a_value_out_of_its_range_is_named(name: str, value: object) -> None:
    with pytest.raises(ArgumentError, match=rf"^{name} is {value!r}; expected "):
        TrainerConfig(**{name: value})


def test_settings_leave_out_what_changes_no_number() -> None:
    quiet = TrainerConfig(show_progress=False, checkpoint_every_steps=3, threads=2, device="cpu")
    assert quiet.settings() == TrainerConfig().settings()
    assert TrainerConfig(lr=0.5).settings() != TrainerConfig().settings()


# Going on with a run: to the bit, or refused with the reason.


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    first = fit(tmp_path)
    bytes_before = (tmp_path / "final.safetensors").read_bytes()
    untouched = task(loss=lambda module, batch: pytest.fail("trained"))
    again = fit(tmp_path, resume=True, task=untouched)
    assert (again.rows, again.best, again.reason) == (first.rows, first.best, first.reason)
    assert (tmp_path / "final.safetensors").read_bytes() == bytes_before


def test_a_run_that_a_callback_ended_is_not_trained_again(tmp_path: Path) -> None:
    ended = fit(tmp_path / "run", callbacks=[lambda row: row["epoch"] == 2])
    again = fit(tmp_path / "run", resume=True)
    assert (again.reason, again.epoch, again.step) == (ended.reason, ended.epoch, ended.step)
    assert again.reason == "callback"
    assert again.rows == ended.rows


def test_more_epochs_continue_as_if_requested_at_once(tmp_path: Path) -> None:
    fit(tmp_path / "a", epochs=5)
    fit(tmp_path / "b", epochs=2)
    fit(tmp_path / "b", epochs=5, resume=True)
    for name in ("metrics.jsonl", "metrics.csv", "final.safetensors", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_run_that_saves_rarely_leaves_what_one_that_saves_always_does(tmp_path: Path) -> None:
    fit(tmp_path / "always", epochs=5)
    fit(tmp_path / "rarely", epochs=5, save_every_epochs=3)
    for name in ("final.safetensors", "model.safetensors", "metrics.jsonl", "metrics.csv"):
        assert (tmp_path / "rarely" / name).read_bytes() == (
            tmp_path / "always" / name
        ).read_bytes()


def test_a_run_that_saves_rarely_continues_where_it_saved(tmp_path: Path) -> None:
    left: list[int] = []

    def stopping(module: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        left.append(len(checkpoint.steps(tmp_path / "a" / "checkpoints")))
        if len(left) == 6:
            raise RuntimeError("killed")
        return accuracy(module, check)

    with pytest.raises(RuntimeError, match="killed"):
        fit(tmp_path / "a", task=task(evaluate=stopping), epochs=7, save_every_epochs=3)
    assert left == [1, 1, 1, 2, 2, 2]  # the first is of the start
    assert len(rows(tmp_path / "a")) == 3
    fit(tmp_path / "a", epochs=7, resume=True)
    fit(tmp_path / "b", epochs=7)
    assert rows(tmp_path / "a") == rows(tmp_path / "b")


def test_a_falling_learning_rate_continues_where_it_was(tmp_path: Path) -> None:
    fit(tmp_path / "a", epochs=4, lr_decay=0.5)
    fit(tmp_path / "b", epochs=2, lr_decay=0.5)
    fit(tmp_path / "b", epochs=4, lr_decay=0.5, resume=True)
    final = [(tmp_path / name / "final.safetensors").read_bytes() for name in "ab"]
    assert final[0] == final[1]


def test_other_settings_are_refused_with_every_key_that_differs(tmp_path: Path) -> None:
    fit(tmp_path, settings={"model": {"hidden_size": 300}, "classes": ("a", "b")})
    same = {"classes": ["a", "b"], "model": {"hidden_size": 300}}
    fit(tmp_path, resume=True, settings=same, checkpoint_every_steps=2, show_progress=False)
    with pytest.raises(ArgumentError) as caught:
        fit(tmp_path, resume=True, settings={"model": {"hidden_size": 200}}, lr=0.5)
    assert str(caught.value) == (
        f"model.hidden_size is 200; expected 300, with which the run in {tmp_path} was started. "
        "Also different: classes ['a', 'b'] → None, lr 0.05 → 0.5. "
        "Resume with the old values, or choose another --out."
    )


def test_a_run_without_a_setting_of_this_version_is_of_an_older_one() -> None:
    before = {"epochs": 2, "clip_norm": 0.25}
    now = {"cell": "lstm", "trainer": before | {"patience": 1}}
    with pytest.raises(DataError, match="without cell, patience"):
        require_same({"trainer": before}, now, "run")


def test_fewer_epochs_are_refused(tmp_path: Path) -> None:
    fit(tmp_path, epochs=3)
    with pytest.raises(ArgumentError, match="epochs is 2; expected 3"):
        fit(tmp_path, epochs=2, resume=True)


def test_another_environment_is_reported_and_no_blocker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(tmp_path, epochs=1)
    real = generators.fingerprint
    monkeypatch.setattr(
        trainer, "fingerprint", lambda *args: {**real(*args), "threads": "64", "torch": "9.9"}
    )
    said: list[str] = []
    fit(tmp_path, resume=True, said=said)
    assert len(said) == 1
    assert said[0].startswith(f"not bit-identical from here on: torch {torch.__version__} → 9.9")
    assert f"threads {torch.get_num_threads()} → 64" in said[0]


def test_another_model_is_refused(tmp_path: Path) -> None:
    fit(tmp_path)
    for network in (nn.Linear(4, 2), model().double(), nn.Sequential(model()[0])):  # type: ignore[index]
        with pytest.raises(CheckpointError, match=r"do not fit the model: .*; expected"):
            fit(tmp_path, resume=True, network=network, epochs=4)


def test_a_damaged_newest_checkpoint_costs_time_and_nothing_else(tmp_path: Path) -> None:
    fit(tmp_path / "a")
    fit(tmp_path / "b")
    newest = checkpoint.path_of_step(tmp_path / "b" / "checkpoints", 21)
    newest.write_bytes(newest.read_bytes()[:-1])
    (tmp_path / "b" / "final.safetensors").unlink()
    said: list[str] = []
    fit(tmp_path / "b", resume=True, said=said)
    assert len(said) == 1
    assert str(newest) in said[0]
    for name in ("metrics.jsonl", "final.safetensors", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_files_that_are_ahead_of_the_checkpoint_are_taken_back(tmp_path: Path) -> None:
    """As a kill between the two leaves them; here the next step fails, so none is made again."""
    fit(tmp_path, epochs=1)
    names = ("metrics.jsonl", "metrics.csv", "timings.jsonl", "model.safetensors")
    before = [(tmp_path / name).read_bytes() for name in names]
    for name in names:
        (tmp_path / name).write_bytes(b"of a step that is not in the checkpoint")

    def fail(module: nn.Module, batch: Any) -> tuple[Tensor, int]:
        raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        fit(tmp_path, epochs=2, resume=True, task=task(loss=fail))
    assert [(tmp_path / name).read_bytes() for name in names] == before
    assert not (tmp_path / "final.safetensors").exists()


def test_resuming_an_empty_folder_starts_and_reports_it(tmp_path: Path) -> None:
    said: list[str] = []
    assert fit(tmp_path, resume=True, said=said).step == 21
    assert said == [f"{tmp_path} has no checkpoint; starting from the beginning"]


# Disks that fail while a model trains: one line, nothing lost, and the run can go on.


Digests = Callable[[Path], dict[str, str]]


@pytest.mark.parametrize(("suffix", "action"), [
    (suffix, action)
    for suffix in ("ckpt", "safetensors", "jsonl", "csv")
    for action in ("enospc", "eio")
])  # fmt: skip
def test_a_disk_that_fails_ends_the_run_in_one_line_and_it_can_go_on(
    server: Any, digests: Digests, uninterrupted: Any, tmp_path: Path, suffix: str, action: str
) -> None:
    out = tmp_path / "run"
    assert server.run("train", out, failpoint=f"{suffix}.written:3:{action}") == 2
    errors = [
        line
        for line in (tmp_path / "run.log").read_text().splitlines()
        if not line.startswith(("step ", "an epoch takes "))  # the second on a busy machine alone
    ]
    assert len(errors) == 1
    assert f".{suffix} cannot be written: " in errors[0]
    assert not list(out.rglob("*.tmp"))
    assert checkpoint.latest(out / "checkpoints", report=pytest.fail) is not None
    assert server.run("train", out, resume=True) == 0
    assert digests(out) == uninterrupted.digests


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_is_really_full_loses_nothing(
    server: Any, digests: Digests, uninterrupted: Any, small_disk: Path, tmp_path: Path
) -> None:
    out = small_disk / "run"
    log = tmp_path / "log"  # not on that disk
    assert server.run("train", out, log=str(log)) == 2
    assert "cannot be written: no space left on device. Free some space" in log.read_text()
    assert not list(out.rglob("*.tmp"))
    found = checkpoint.latest(out / "checkpoints", report=pytest.fail)
    assert found is not None
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    assert server.run("train", out, resume=True) == 0
    assert digests(out) == uninterrupted.digests
