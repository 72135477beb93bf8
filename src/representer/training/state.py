"""Take and restore a snapshot of everything that the next training step depends on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from representer.errors import CheckpointError
from representer.storage.run import RunFolder
from representer.training import generators
from representer.training.averages import EvaluationWeights
from representer.training.config import Carried, Row, TrainingState, copy_weights, load_weights
from representer.training.processes import gathered

if TYPE_CHECKING:
    from accelerate import Accelerator


def take(
    accelerator: Accelerator, model: nn.Module, optimizer: torch.optim.Optimizer,
    averages: EvaluationWeights, state: TrainingState, carried: Carried | None,
) -> dict[str, Any]:  # fmt: skip
    """Return a snapshot that a checkpoint can store. All processes must call this together."""
    handed_on = None if carried is None else gathered(accelerator, carried.state_dict())
    return {
        "progress": state.to_dict(),
        "model": copy_weights(model),
        "optimizer": optimizer.state_dict(),
        "averages": averages.state_dict(),
        "scaler": None if accelerator.scaler is None else accelerator.scaler.state_dict(),
        "random": gathered(accelerator, generators.states()),
        "carried": handed_on,
    }


def put_back(
    snapshot: Mapping[str, Any], accelerator: Accelerator, model: nn.Module,
    optimizer: torch.optim.Optimizer, averages: EvaluationWeights, carried: Carried | None,
) -> TrainingState:  # fmt: skip
    """Restore model, optimizer and random states from a snapshot, and return the training state."""
    load_weights(model, snapshot["model"])
    optimizer.load_state_dict(snapshot["optimizer"])
    averages.load_state_dict(snapshot.get("averages"))
    if accelerator.scaler is not None and snapshot["scaler"] is not None:
        accelerator.scaler.load_state_dict(snapshot["scaler"])
    if accelerator.process_index < len(snapshot["random"]):
        generators.restore(snapshot["random"][accelerator.process_index])
    if carried is not None:
        parts = snapshot.get("carried") or []
        if len(parts) != accelerator.num_processes:
            raise CheckpointError(
                f"the state carried between batches is from {len(parts)} processes; expected "
                f"{accelerator.num_processes}. Resume with {len(parts)} processes."
            )
        carried.load_state_dict(parts[accelerator.process_index])
    return TrainingState.from_dict(snapshot["progress"])


# The output files of a training run; each can be rebuilt from a checkpoint's state.

BEST, FINAL = "model.safetensors", "final.safetensors"


def write_weights(
    run: RunFolder, name: str, weights: Mapping[str, Tensor], row: Row | None
) -> None:
    """Write weights, with their metrics as JSON under ``metrics`` in the file's header."""
    run.write_tensors(name, weights, {"metrics": json.dumps(row)})


def write_state(run: RunFolder, state: TrainingState) -> None:
    """Rewrite the metrics and best weights from the state, and remove the final weights."""
    state.log.write(run)
    run.remove(FINAL)
    write_best(run, state)


def write_best(run: RunFolder, state: TrainingState) -> None:
    """Write the best weights of the state, or remove the file if there are none."""
    if state.best_weights is None:
        run.remove(BEST)
    else:
        write_weights(run, BEST, state.best_weights, state.best_row)


def write_end(run: RunFolder, state: TrainingState, weights: Mapping[str, Tensor]) -> None:
    """Write the final weights, and use them as the best ones if no evaluation gave a number."""
    last = state.log.rows[-1] if state.log.rows else None
    write_weights(run, FINAL, weights, last)
    if state.best_weights is None:
        write_weights(run, BEST, weights, last)


# Result of a finished training run.

Reason = Literal[
    "epochs",
    "max_steps",
    "patience",
    "nonmonotone",
    "max_drop",
    "time_limit",
    "callback",
    "diverged",
]


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training run.

    Attributes:
        step: Completed optimization steps.
        epoch: Completed epochs.
        rows: Metrics of each evaluation.
        best: Row of the best evaluation, whose weights are in ``model.safetensors``; None if the
            monitored metric was never a number.
        reason: The rule that ended training.
        seconds: Training time, without interruptions.
    """

    step: int
    epoch: int
    rows: list[Row]
    best: Row | None
    reason: Reason
    seconds: float
