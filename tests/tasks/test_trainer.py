"""The trainer: learning, files, early stopping, resuming, and every way to be refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from representer.errors import ArgumentError, CheckpointError, KindError, TrainingError
from representer.tasks import checkpoint, fingerprint, generators, trainer
from representer.tasks.run_folder import RunFolder
from representer.tasks.trainer import Trainer
from representer.tasks.trainer_config import TrainerConfig
from representer.tasks.training_files import read_weights
from representer.tasks.training_result import TrainingResult
from representer.tasks.training_task import TrainingTask

N = 50
INPUTS = torch.randn(N, 4, generator=torch.Generator().manual_seed(0))
LABELS = (INPUTS[:, 0] > 0).long()


def model() -> nn.Module:
    with generators.initialising(1):
        return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 2))


def batches(epoch: int) -> list[list[int]]:
    order = torch.randperm(N, generator=generators.generator(1, "order", epoch)).tolist()
    return [order[i : i + 8] for i in range(0, N, 8)]


def loss(module: nn.Module, batch: Any) -> tuple[Tensor, int]:
    return nn.functional.cross_entropy(module(batch[0]), batch[1]), len(batch[1])


def accuracy(module: nn.Module, check: Callable[[], None]) -> dict[str, float]:
    check()
    return {"accuracy": (module(INPUTS).argmax(1) == LABELS).double().mean().item()}


def task(**changes: Any) -> TrainingTask:
    parts: dict[str, Any] = {
        "batches": batches,
        "load": lambda rows: (INPUTS[rows], LABELS[rows]),
        "loss": loss,
        "evaluate": accuracy,
    }
    return TrainingTask(**{**parts, **changes})


def config(**changes: Any) -> TrainerConfig:
    return TrainerConfig(**{"epochs": 3, "lr": 0.05, "device": "cpu", "seed": 1, **changes})


def fit(
    out: Path,
    *,
    resume: bool = False,
    task: TrainingTask = task(),  # noqa: B008  (frozen, and shared by nobody who writes)
    network: nn.Module | None = None,
    settings: dict[str, Any] | None = None,
    said: list[str] | None = None,
    **changes: Any,
) -> TrainingResult:
    report = pytest.fail if said is None else said.append
    with RunFolder(out, resume=resume, report=report) as run:
        return Trainer(network or model(), task, config(**changes), run, settings=settings).fit()


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def scripted(values: list[float | None]) -> Callable[..., dict[str, Any]]:
    """Return an evaluation that gives these numbers, one after the other."""
    left = iter(values)
    return lambda module, check: {"accuracy": next(left)}


def test_it_learns_and_says_how_it_ended(tmp_path: Path) -> None:
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
    assert [time["step"] for time in times] == [5, 7, 10, 14, 15, 20, 21]
    assert all(set(time) == {"step", "seconds"} for time in times)


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


def test_patience_ends_a_training_that_no_longer_gains(tmp_path: Path) -> None:
    evaluate = scripted([0.5, 0.6, 0.6, 0.55, 0.9])
    result = fit(tmp_path, task=task(evaluate=evaluate), epochs=9, patience=2)
    assert (result.reason, result.epoch, len(result.rows)) == ("patience", 4, 4)


def test_max_steps_ends_it_with_an_evaluation(tmp_path: Path) -> None:
    result = fit(tmp_path, max_steps=9)
    assert (result.reason, result.step, result.epoch) == ("max_steps", 9, 1)
    assert [row["step"] for row in rows(tmp_path)] == [7, 9]


def test_a_metric_that_is_no_number_never_wins_and_is_null_in_the_files(tmp_path: Path) -> None:
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


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    first = fit(tmp_path)
    bytes_before = (tmp_path / "final.safetensors").read_bytes()
    untouched = task(loss=lambda module, batch: pytest.fail("trained"))
    again = fit(tmp_path, resume=True, task=untouched)
    assert (again.rows, again.best, again.reason) == (first.rows, first.best, first.reason)
    assert (tmp_path / "final.safetensors").read_bytes() == bytes_before


def test_more_epochs_continue_as_if_they_had_been_asked_for_at_once(tmp_path: Path) -> None:
    fit(tmp_path / "a", epochs=5)
    fit(tmp_path / "b", epochs=2)
    fit(tmp_path / "b", epochs=5, resume=True)
    for name in ("metrics.jsonl", "metrics.csv", "final.safetensors", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_seeds_decide(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        fit(tmp_path / name, seed=seed)
    files = [(tmp_path / name / "final.safetensors").read_bytes() for name in "abc"]
    assert files[0] == files[1] != files[2]


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


def test_fewer_epochs_are_refused(tmp_path: Path) -> None:
    fit(tmp_path, epochs=3)
    with pytest.raises(ArgumentError, match="epochs is 2; expected 3"):
        fit(tmp_path, epochs=2, resume=True)


def test_another_environment_is_reported_and_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(tmp_path, epochs=1)
    real = fingerprint.fingerprint
    monkeypatch.setattr(
        trainer, "fingerprint", lambda *args: {**real(*args), "threads": "64", "torch": "9.9"}
    )
    said: list[str] = []
    fit(tmp_path, resume=True, said=said)
    assert len(said) == 1
    assert said[0].startswith(f"not bit-identical from here on: torch {torch.__version__} → 9.9")
    assert "→ 64" in said[0]


def test_another_model_is_refused(tmp_path: Path) -> None:
    fit(tmp_path)
    for network in (nn.Linear(4, 2), model().double(), nn.Sequential(model()[0])):  # type: ignore[index]
        with pytest.raises(CheckpointError, match=r"of another model: .* there and .* here"):
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


def test_to_resume_where_nothing_is_starts_and_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    assert fit(tmp_path, resume=True, said=said).step == 21
    assert said == [f"{tmp_path} has no checkpoint; starting from the beginning"]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_before_it_does_harm(tmp_path: Path, bad: float) -> None:
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


def test_a_gradient_that_is_no_number_stops_before_it_does_harm(tmp_path: Path) -> None:
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
    with pytest.raises(ArgumentError, match=r"monitor is 'f1'; expected one .* are: accuracy"):
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


def test_frozen_parameters_stay(tmp_path: Path) -> None:
    network = model()
    frozen = network[0].requires_grad_(False)  # type: ignore[index]
    before = frozen.weight.clone()
    fit(tmp_path, network=network, weight_decay=0.1)
    assert torch.equal(frozen.weight, before)


def test_checkpoints_are_also_saved_by_the_clock(tmp_path: Path) -> None:
    kept = []

    def load(indices: Any) -> Any:
        kept.append(checkpoint.steps(tmp_path / "checkpoints"))
        return INPUTS[indices], LABELS[indices]

    fit(tmp_path, task=task(load=load), checkpoint_every_seconds=1e-9, epochs=1)
    assert kept == [[0], [0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6]]


def test_another_precision_in_one_process_is_refused_with_the_reason(tmp_path: Path) -> None:
    fit(tmp_path / "a", epochs=1)
    with pytest.raises(ArgumentError, match=r"mixed_precision is 'bf16'.* allows one per process"):
        fit(tmp_path / "b", mixed_precision="bf16")
