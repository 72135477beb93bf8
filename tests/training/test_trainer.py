"""The trainer: learning, files, early stopping, and what stops it before harm is done."""

from __future__ import annotations

import csv
import json
import resource
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_training import INPUTS, LABELS, accuracy, config, fit, loss, model, rows, scripted, task
from torch import Tensor, nn

from representer.errors import ArgumentError, KindError, TrainingError
from representer.storage import checkpoint
from representer.storage.run import RunFolder
from representer.training import trainer
from representer.training.state import read_weights
from representer.training.trainer import Trainer


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
