"""Which evaluation is best, and when to stop."""

from __future__ import annotations

from math import comb
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from small_training import INPUTS, LABELS, batches, fit, model, task
from torch import Tensor, nn

from representer.training.averages import EVERY, WeightAverage
from representer.training.config import best_index, has_collapsed, is_above_older, is_exhausted
from representer.training.lazy_adam import LazyAdam


@pytest.mark.parametrize(("values", "direction", "best"), [
    ([], "max", None), ([None, None], "max", None), ([1.0], "min", 0),
    ([1.0, 3.0, 2.0], "max", 1), ([1.0, 3.0, 2.0], "min", 0), ([2.0, 2.0, 1.0], "max", 0),
    ([None, 2.0, None, 2.5], "max", 3), ([-1.0, -2.0, -2.0], "min", 1),
])  # fmt: skip
def test_the_first_of_the_best_is_the_best(values, direction, best) -> None:
    assert best_index(values, direction) == best


@pytest.mark.parametrize(("values", "patience", "is_over"), [
    ([1.0, 0.5, 0.5], 2, True), ([1.0, 0.5], 2, False), ([1.0, 0.5, 2.0], 2, False),
    ([1.0, 1.0, 1.0], 2, True), ([None, None], 2, True), ([None], 2, False),
    ([1.0] * 99, None, False), ([], 1, False),
])  # fmt: skip
def test_patience_counts_evaluations_without_a_new_best(values, patience, is_over) -> None:
    assert is_exhausted(values, "max", patience) == is_over


@pytest.mark.parametrize(("values", "direction", "max_drop", "is_over"), [
    ([1.0, 0.5], "max", 0.5, True), ([1.0, 0.75], "max", 0.5, False),
    ([0.0, 1.0, 0.5, 0.75], "max", 0.5, False), ([0.0, 2.0], "max", 0.5, False),
    ([0.5, 1.0], "min", 0.5, True), ([1.0, 0.5], "min", 0.25, False),
    ([1.0, None], "max", 0.5, False), ([None], "max", 0.5, False),
    ([1.0, 0.0], "max", None, False), ([], "max", 0.5, False),
])  # fmt: skip
def test_a_collapse_is_the_last_value_being_far_behind_the_best(
    values, direction, max_drop, is_over
) -> None:
    assert has_collapsed(values, direction, max_drop) == is_over


@pytest.mark.parametrize(("values", "direction", "recent", "is_over"), [
    ([], "min", 2, False), ([1.0, 2.0, 3.0], "min", 2, False),
    ([1.0, 2.0, 3.0, 1.5], "min", 2, True), ([1.0, 2.0, 3.0, 1.0], "min", 2, False),
    ([1.0, 2.0, 3.0, 1.5], "min", 3, False), ([1.0, 2.0, 3.0, 1.5], "min", None, False),
    ([None, 2.0, 3.0, 1.5], "min", 2, False), ([1.0, 2.0, 3.0, None], "min", 2, False),
    ([3.0, 1.0, 2.0], "max", 1, True), ([3.0, 1.0, 4.0], "max", 1, False),
])  # fmt: skip
def test_an_evaluation_may_be_worse_than_the_older_ones(values, direction, recent, is_over) -> None:
    assert is_above_older(values, direction, recent) is is_over


# Averaged weights: their closed form, what is evaluated and saved, and resumption to the bit.


def test_the_average_has_its_closed_form() -> None:
    weight = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    average, n = WeightAverage([weight]), 20
    values = torch.randn(n, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for value in values[:-1]:
        weight.data.copy_(value)
        average.update()
    weight.data.copy_(values[-1])
    with average.averaged():
        found = weight.detach().clone()
    shares = torch.tensor([comb(k + 7, 8) / comb(n + 8, 9) for k in range(1, n + 1)])
    torch.testing.assert_close(found, shares.double() @ values, rtol=1e-6, atol=0)
    assert torch.equal(weight.data, values[-1])


def without_dropout() -> nn.Module:
    network = model()
    network[1] = nn.Identity()  # type: ignore[index]
    return network


def averages_by_hand(epochs: int) -> dict[str, Tensor]:
    """Return the averages of a training without the trainer."""
    network = without_dropout()
    optimizer = LazyAdam(network.parameters(), 0.05)
    average, step = WeightAverage(network.parameters()), 0
    for epoch in range(epochs):
        for rows in batches(epoch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(INPUTS[rows]), LABELS[rows]).backward()
            optimizer.step()
            step += 1
            if step % EVERY == 0:
                average.update()
    with average.averaged():
        return {name: value.clone() for name, value in network.state_dict().items()}


def test_the_averages_are_evaluated_and_saved_and_not_trained(tmp_path: Path) -> None:
    evaluated: list[Tensor] = []

    def evaluate(module: nn.Module, check: Any) -> dict[str, float]:
        evaluated.append(next(module.parameters()).detach().clone())
        return {"accuracy": float(len(evaluated))}  # the last evaluation is the best

    fit(tmp_path, epochs=4, network=without_dropout(), task=task(evaluate=evaluate),
        average_weights=True)  # fmt: skip
    wanted = averages_by_hand(4)
    assert torch.equal(evaluated[-1], wanted["0.weight"])
    for name in ("model", "final"):
        saved = safetensors.torch.load_file(tmp_path / f"{name}.safetensors")
        torch.testing.assert_close(saved, wanted, rtol=0, atol=0)


def test_averages_continue_to_the_bit(tmp_path: Path) -> None:
    options: dict[str, Any] = {"average_weights": True, "evaluate_every": 3}
    fit(tmp_path / "a", epochs=5, **options)
    fit(tmp_path / "b", epochs=3, **options)
    fit(tmp_path / "b", epochs=5, resume=True, **options)
    for name in ("metrics.jsonl", "final.safetensors", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
