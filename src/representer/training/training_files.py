"""The output files of a training run; each can be rebuilt from a checkpoint's state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from representer.errors import CheckpointError
from representer.storage.files import parse_json
from representer.storage.run_folder import RunFolder
from representer.storage.tensor_file import read_tensors
from representer.training.metrics_log import Row
from representer.training.training_state import TrainingState

BEST, FINAL = "model.safetensors", "final.safetensors"


def write_weights(
    run: RunFolder, name: str, weights: Mapping[str, Tensor], row: Row | None
) -> None:
    """Write weights, with their metrics as JSON under ``metrics`` in the file's header."""
    run.write_tensors(name, weights, {"metrics": json.dumps(row)})


def read_weights(path: str | Path) -> tuple[dict[str, Tensor], Row | None]:
    """Read weights and their metrics.

    Args:
        path: A file written by `write_weights`.

    Raises:
        CheckpointError: The file is missing, damaged, or not a file of weights.
    """
    try:
        tensors, metadata = read_tensors(path)
        return tensors, parse_json(metadata.get("metrics", "null").encode("utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = f"{path} is not a readable file of weights: {reason}"
        fix = "Check the path, or take the file from a copy of the run."
        raise CheckpointError(f"{problem}. {fix}") from None


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
