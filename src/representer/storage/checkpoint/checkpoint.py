"""A checkpoint: everything that an interrupted run needs to continue exactly."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from representer.errors import CheckpointError
from representer.storage import atomic
from representer.storage.checkpoint.container import decode, encode
from representer.storage.files import physical_memory, read_bytes


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after a step.

    Args:
        step: Optimization steps done.
        state: Weights, optimizer, random states and position, see ``training_state``.
        settings: Settings that determine the run; a resumed run must have the same.
        environment: What else the results may depend on, see ``fingerprint``.
    """

    step: int
    state: dict[str, Any]
    settings: dict[str, Any]
    environment: dict[str, str]


def save(path: str | Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically.

    Args:
        path: The file, in an existing folder.
        checkpoint: The checkpoint.

    Raises:
        KindError: A value of the state cannot be stored.
        StorageError: It cannot be written; the previous file is unchanged.
    """
    values = {field.name: getattr(checkpoint, field.name) for field in fields(Checkpoint)}
    atomic.write_bytes(path, *encode(values))


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint.

    Args:
        path: The file.

    Raises:
        NewerCheckpointError: A newer version of the library wrote it.
        CheckpointError: It is missing, damaged, or not a checkpoint.
    """
    try:
        values = decode(_read(Path(path)))
        return _from_values(values)
    except CheckpointError as error:
        raise type(error)(f"{path} cannot be used: {error}") from None


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, physical_memory())
    except OSError as error:
        raise CheckpointError(f"{(error.strerror or str(error)).lower()}") from None
    except ValueError:  # a NUL in the name
        raise CheckpointError("that is not a path") from None


def _from_values(values: Any) -> Checkpoint:
    kinds = {"step": int, "state": dict, "settings": dict, "environment": dict}
    if not isinstance(values, dict) or set(values) != set(kinds):
        raise CheckpointError("it does not hold the state of a run")
    for name, kind in kinds.items():
        if type(values[name]) is not kind:
            raise CheckpointError(f"its {name} is not of the right kind")
    return Checkpoint(**values)
