"""NT-ASGD: plain SGD, the switch, exact means, and states that go on to the bit."""

from __future__ import annotations

import copy
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from small_training import INPUTS, LABELS, batches, config, model, rows, scripted, task
from torch import Tensor, nn

from representer.errors import ArgumentError, Interrupted
from representer.storage import checkpoint
from representer.storage.run import RunFolder
from representer.training.averages import NonMonotonicASGD
from representer.training.state import TrainingResult
from representer.training.trainer import Trainer


def parameters() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(3, 2, dtype=torch.float64)) for _ in range(2)]


def steps(optimizer: torch.optim.Optimizer, count: int, seed: int) -> list[list[Tensor]]:
    """Take steps along random gradients and return the iterates."""
    torch.manual_seed(seed)
    found = []
    (group,) = optimizer.param_groups
    for k in range(count):
        group["lr"] = 0.1 * (1 + k % 3)  # as segments of different lengths have
        for parameter in group["params"]:
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
        found.append([p.detach().clone() for p in group["params"]])
    return found


def switch(optimizer: NonMonotonicASGD) -> None:
    assert [optimizer.observe(loss) for loss in (1.0, 2.0, 2.0)] == [False, False, True]


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("starts_averaging", [False, True])
def test_the_iterates_are_those_of_plain_sgd(decay: float, starts_averaging: bool) -> None:
    ours, theirs = parameters(), parameters()
    own = NonMonotonicASGD(ours, 0.1, decay, starts_averaging=starts_averaging)
    found = steps(own, 7, 1)
    wanted = steps(torch.optim.SGD(theirs, 0.1, weight_decay=decay), 7, 1)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_the_mean_is_of_the_iterates_after_the_switch() -> None:
    weights = parameters()
    optimizer = NonMonotonicASGD(weights, 0.1, patience=1)
    steps(optimizer, 4, 1)
    assert optimizer.averaged_steps == 0
    switch(optimizer)
    assert optimizer.averaged_steps == 0
    last = [w.detach().clone() for w in weights]
    with optimizer.averaged():
        assert all(torch.equal(w, v) for w, v in zip(weights, last, strict=True))
    found = steps(optimizer, 5, 2)
    assert optimizer.averaged_steps == 5
    with optimizer.averaged():
        for k, weight in enumerate(weights):
            mean = torch.stack([iterate[k] for iterate in found]).mean(0)
            torch.testing.assert_close(weight.detach(), mean, rtol=1e-12, atol=1e-12)
    for weight, iterate in zip(weights, found[-1], strict=True):
        assert torch.equal(weight, iterate)


def test_the_means_are_taken_out_again_after_an_error() -> None:
    weights = parameters()
    optimizer = NonMonotonicASGD(weights, 0.1, starts_averaging=True)
    (*_, last) = steps(optimizer, 3, 1)
    with pytest.raises(ZeroDivisionError), optimizer.averaged():
        1 / torch.equal(weights[0], last[0])
    assert torch.equal(weights[0], last[0])


def test_a_parameter_without_gradient_is_its_own_mean() -> None:
    used, idle = parameters()
    optimizer = NonMonotonicASGD([used, idle], 0.1, 0.5, starts_averaging=True)
    before = idle.detach().clone()
    for _ in range(3):
        used.grad = torch.ones_like(used)
        optimizer.step()
    with optimizer.averaged():
        torch.testing.assert_close(idle.detach(), before)


@pytest.mark.parametrize(
    ("losses", "at"),
    [
        ([5, 4, 3, 2, 1], None),
        ([5, 4, 6], None),  # the 4 and the 6 are of the last two; 5 is not above itself
        ([4, 6, 6, 5], 3),  # 5 > 4, the best of all but the last two before
        ([4, 6, 6, 4], None),  # as low is not above
        ([4, float("nan"), 6, 6, 5], 4),
        ([4, 6, 6, 5, 9, 9], 3),
    ],
)
def test_averaging_starts_where_a_loss_is_above_the_older_ones(losses, at) -> None:
    optimizer = NonMonotonicASGD(parameters(), 0.1, patience=2)
    switched = [k for k, loss in enumerate(losses) if optimizer.observe(loss)]
    assert switched == ([] if at is None else [at])


@pytest.mark.parametrize("break_at", range(9))
def test_a_reloaded_optimizer_continues_bit_for_bit(break_at: int) -> None:
    """Before, at and after the switch at step 4, and the one at 4 with the loss yet to come."""

    def run(optimizer: NonMonotonicASGD, first: int, last: int) -> None:
        for k in range(first, last):
            steps(optimizer, 1, k)
            if k < 5:
                optimizer.observe([1.0, 3.0, 2.0, 0.5, 1.5][k])

    whole, parts = parameters(), parameters()
    one = NonMonotonicASGD(whole, 0.1, 0.01, patience=1)
    run(one, 0, 9)
    before = NonMonotonicASGD(parts, 0.1, 0.01, patience=1)
    run(before, 0, break_at)
    copies = [nn.Parameter(p.detach().clone()) for p in parts]
    after = NonMonotonicASGD(copies, 0.5, 0.5, patience=4)
    after.load_state_dict(copy.deepcopy(before.state_dict()))
    run(after, break_at, 9)
    assert one.averaged_steps == after.averaged_steps == 6
    for a, b in zip(whole, copies, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(one.state[a]["mean"], after.state[b]["mean"])
    assert one.state_dict()["averaging"] == after.state_dict()["averaging"]


def test_a_copy_continues_with_its_copy_of_the_weights() -> None:
    optimizer = NonMonotonicASGD(parameters(), 0.1, patience=1, starts_averaging=True)
    steps(optimizer, 3, 0)
    copied = copy.deepcopy(optimizer)
    for one, other in zip(steps(optimizer, 3, 1), steps(copied, 3, 1), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert copied.state_dict()["averaging"] == optimizer.state_dict()["averaging"]
    with optimizer.averaged(), copied.averaged():
        (one,), (other,) = optimizer.param_groups, copied.param_groups
        torch.testing.assert_close(one["params"], other["params"], rtol=0, atol=0)


def test_numbers_out_of_range_are_refused() -> None:
    for wrong in ({"lr": 0}, {"lr": 1, "weight_decay": -1}, {"lr": 1, "patience": 0}):
        with pytest.raises(ArgumentError, match=f"{list(wrong)[-1]} is .*; expected a"):
            NonMonotonicASGD(parameters(), **wrong)  # type: ignore[arg-type]


def test_a_closure_gives_its_loss() -> None:
    (weight, _) = parameters()
    optimizer = NonMonotonicASGD([weight], 0.1)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss

    before = weight.square().sum().item()
    assert optimizer.step(closure).item() == before > weight.square().sum().item()


# In the trainer


LOSSES = [3.0, 2.0, 4.0, 5.0, 1.5, 1.0, 1.2]  # the third is above the first two's best


def measured(losses: list[float]) -> Callable[..., dict[str, float]]:
    """Return an evaluation that depends on the weights and, far more, on the script."""
    script = scripted(list(losses))

    def evaluate(module: nn.Module, check: Callable[[], None]) -> dict[str, float]:
        check()
        fit_of = nn.functional.cross_entropy(module(INPUTS), LABELS).item()
        return {"loss": script(module, check)["accuracy"] + 1e-6 * fit_of}

    return evaluate


def train(
    out: Path, said: list[str], losses: list[float], *, resume: bool = False, **changes: Any
) -> tuple[TrainingResult, nn.Module]:
    network = model()
    optimizer = NonMonotonicASGD(network.parameters(), 0.05, 0.001, patience=1)
    options = {"epochs": 7, "monitor": "loss", "direction": "min", "clip_norm": 1.0, **changes}
    with RunFolder(out, resume=resume, report=said.append) as run:
        work = task(evaluate=measured(losses))
        return Trainer(network, work, config(**options), run, optimizer=optimizer).fit(), network


def test_the_switch_is_reported_and_the_rows_tell_how_many_steps_are_averaged(tmp_path) -> None:
    said: list[str] = []
    result, _ = train(tmp_path, said, LOSSES)
    per_epoch = len(batches(0))
    assert said == [f"averaging the weights from step {3 * per_epoch}"]
    counts = [row["averaged_steps"] for row in rows(tmp_path)]
    assert counts == [0, 0, 0, *(k * per_epoch for k in range(1, 5))]
    assert result.best is not None
    assert result.best["epoch"] == 6


def test_evaluated_best_and_final_weights_are_the_means_and_training_continues_from_others(
    tmp_path: Path,
) -> None:
    result, network = train(tmp_path, [], LOSSES)
    found = checkpoint.latest(tmp_path / "checkpoints", report=pytest.fail)
    assert found is not None
    final = safetensors.torch.load_file(tmp_path / "final.safetensors")
    means = [found.state["optimizer"]["state"][k]["mean"] for k in range(4)]
    for k, name in enumerate(found.state["model"]):
        assert torch.equal(final[name], means[k])
        assert torch.equal(network.state_dict()[name], means[k])
        assert not torch.equal(found.state["model"][name], means[k])
    best = safetensors.torch.load_file(tmp_path / "model.safetensors")
    train(tmp_path / "shorter", [], LOSSES, epochs=6)  # ends with the best evaluation
    ends = safetensors.torch.load_file(tmp_path / "shorter" / "final.safetensors")
    assert all(torch.equal(best[name], ends[name]) for name in best)
    twin = model().eval()
    twin.load_state_dict(best)
    fit_of = nn.functional.cross_entropy(twin(INPUTS), LABELS).item()
    assert result.best is not None
    # what evaluation saw of these weights is in the last digits of its loss
    assert (result.best["loss"] - 1.0) * 1e6 == pytest.approx(fit_of, rel=1e-6)


@pytest.mark.parametrize("direction", ["min", "max"])
def test_the_direction_of_the_metric_counts(tmp_path: Path, direction: str) -> None:
    said: list[str] = []
    losses = LOSSES if direction == "min" else [-loss for loss in LOSSES]
    train(tmp_path, said, losses, direction=direction)
    assert said == [f"averaging the weights from step {3 * len(batches(0))}"]


def test_an_evaluation_without_a_number_counts_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    train(tmp_path, said, [2.0, float("nan"), 1.0, 0.5, 0.4, 0.3, 0.2])
    assert said == []


@pytest.mark.parametrize("stop", range(1, 50))  # the switch is after step 21
def test_a_training_stopped_at_any_step_continues_bit_for_bit(
    tmp_path: Path, stop: int, uninterrupted_files: dict[str, bytes]
) -> None:
    """Stopped as a signal does it; the script of evaluations continues."""
    seen = 0

    def interrupt(batch: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == stop:
            os.kill(os.getpid(), signal.SIGTERM)
        return INPUTS[batch], LABELS[batch]

    network = model()
    optimizer = NonMonotonicASGD(network.parameters(), 0.05, 0.001, patience=1)
    options = config(epochs=7, monitor="loss", direction="min", clip_norm=1.0)
    with RunFolder(tmp_path, report=lambda line: None) as run:
        work = task(evaluate=measured(LOSSES), load=interrupt)
        with pytest.raises(Interrupted):
            Trainer(network, work, options, run, optimizer=optimizer).fit()
    done = len(rows(tmp_path)) if (tmp_path / "metrics.jsonl").exists() else 0
    train(tmp_path, [], LOSSES[done:], resume=True)
    for name, content in uninterrupted_files.items():
        assert (tmp_path / name).read_bytes() == content, name
    after = checkpoint.latest(tmp_path / "checkpoints", report=pytest.fail)
    assert after is not None
    assert after.state["optimizer"]["averaging"]["since"] == 21


@pytest.fixture(scope="session")
def uninterrupted_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("whole")
    train(out, [], LOSSES)
    names = ("final.safetensors", "model.safetensors", "metrics.jsonl")
    return {name: (out / name).read_bytes() for name in names}


def test_a_finished_run_that_is_resumed_has_the_means_again(tmp_path: Path) -> None:
    _, first = train(tmp_path, [], LOSSES)
    _, again = train(tmp_path, [], [], resume=True)
    for name, value in first.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)


def test_fine_tuning_averages_from_the_start_and_stops_by_the_same_criterion(
    tmp_path: Path,
) -> None:
    network = model()
    optimizer = NonMonotonicASGD(network.parameters(), 0.05, starts_averaging=True)
    options = config(epochs=7, monitor="loss", direction="min", nonmonotone=1)
    with RunFolder(tmp_path, report=pytest.fail) as run:
        work = task(evaluate=measured(LOSSES))
        result = Trainer(network, work, options, run, optimizer=optimizer).fit()
    assert (result.reason, result.epoch) == ("nonmonotone", 3)
    per_epoch = len(batches(0))
    assert [r["averaged_steps"] for r in rows(tmp_path)] == [per_epoch * k for k in (1, 2, 3)]
