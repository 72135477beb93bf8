"""Take and restore a snapshot of everything that the next training step depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from representer.errors import CheckpointError
from representer.training import generators
from representer.training.evaluation_weights import EvaluationWeights
from representer.training.training_state import TrainingState, copy_weights, load_weights
from representer.training.training_task import Carried
from representer.training.workers import gathered

if TYPE_CHECKING:
    from accelerate import Accelerator


def take(
    accelerator: Accelerator,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    averages: EvaluationWeights,
    state: TrainingState,
    carried: Carried | None,
) -> dict[str, Any]:
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
    snapshot: Mapping[str, Any],
    accelerator: Accelerator,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    averages: EvaluationWeights,
    carried: Carried | None,
) -> TrainingState:
    """Restore model, optimizer and random states from a snapshot, and return the training state.

    Raises:
        CheckpointError: The snapshot is of another model, or the state carried between batches is
            from a different number of processes.
    """
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
