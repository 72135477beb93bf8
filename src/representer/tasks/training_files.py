"""The files that a training leaves beside its checkpoints; its state can make each again."""

from __future__ import annotations

import json
from collections.abc import Mapping

from torch import Tensor

from representer.tasks.metrics_log import Row
from representer.tasks.run_folder import RunFolder
from representer.tasks.training_state import TrainingState

BEST, FINAL = "model.safetensors", "final.safetensors"


def write_weights(
    run: RunFolder, name: str, weights: Mapping[str, Tensor], row: Row | None
) -> None:
    """Write weights with the metrics they had, as JSON under ``metrics`` in the file's header."""
    run.write_tensors(name, weights, {"metrics": json.dumps(row)})


def write_state(run: RunFolder, state: TrainingState) -> None:
    """Make metrics and best weights say what the state says, and remove what it has not reached."""
    state.log.write(run)
    run.remove(FINAL)
    if state.best_weights is None:
        run.remove(BEST)
    else:
        write_weights(run, BEST, state.best_weights, state.best_row)


def write_end(run: RunFolder, state: TrainingState, weights: Mapping[str, Tensor]) -> None:
    """Write the final weights, as the best ones too if no evaluation was best."""
    last = state.log.rows[-1] if state.log.rows else None
    write_weights(run, FINAL, weights, last)
    if state.best_weights is None:
        write_weights(run, BEST, weights, last)
