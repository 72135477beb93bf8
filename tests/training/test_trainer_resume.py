"""Going on with a run: to the bit, or refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_training import accuracy, fit, model, rows, task
from torch import Tensor, nn

from representer.errors import ArgumentError, CheckpointError
from representer.storage import checkpoint
from representer.training import generators, trainer


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
