"""The checkpoints of a run: write one, keep the newest few, and find the newest valid one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from representer.errors import CheckpointError, NewerCheckpointError
from representer.storage.checkpoint.checkpoint import Checkpoint, load, save
from representer.storage.failpoints import failpoint

_NAME = re.compile(r"step-([0-9]{9,})\.ckpt")


def path_of_step(folder: str | Path, step: int) -> Path:
    """Return the path of the checkpoint of a step, for example ``step-000000400.ckpt``."""
    return Path(folder) / f"step-{step:09d}.ckpt"


def steps(folder: str | Path) -> list[int]:
    """Return the steps with a checkpoint in a folder, valid or damaged, in ascending order."""
    folder = Path(folder)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def save_step(
    folder: str | Path, checkpoint: Checkpoint, *, report: Callable[[str], None], keep: int = 2
) -> Path:
    """Write the checkpoint of a step, and then delete those that are no longer needed.

    Checkpoints of later steps are deleted, too: `latest` found them damaged, and the run continued
    from an earlier one.

    Args:
        folder: The folder of the run's checkpoints.
        checkpoint: The checkpoint.
        report: Called with a message if a file cannot be deleted; training continues.
        keep: Number of checkpoints to keep, including the new one.

    Returns:
        The path of the file.

    Raises:
        StorageError: It cannot be written; all earlier checkpoints are kept.
    """
    path = path_of_step(folder, checkpoint.step)
    save(path, checkpoint)
    earlier = [step for step in steps(folder) if step <= checkpoint.step]
    for step in sorted(set(steps(folder)) - set(earlier[-keep:])):
        obsolete = path_of_step(folder, step)
        try:
            failpoint("ckpt.pruned")
            obsolete.unlink(missing_ok=True)
        except OSError as error:
            report(f"{obsolete} is no longer needed and cannot be deleted: {error.strerror}")
    return path


def latest(folder: str | Path, *, report: Callable[[str], None]) -> Checkpoint | None:
    """Read the newest valid checkpoint.

    Args:
        folder: The folder of the run's checkpoints; it may be missing.
        report: Called with a message for each damaged checkpoint.

    Returns:
        The checkpoint, or None if the folder has none.

    Raises:
        NewerCheckpointError: A newer version of the library wrote the newest one; an earlier one
            would discard its training.
        CheckpointError: All checkpoints are damaged.
    """
    found = steps(folder)
    for step in reversed(found):
        try:
            return load(path_of_step(folder, step))
        except NewerCheckpointError:
            raise
        except CheckpointError as error:
            report(f"{error}; trying the one before")
    if found:
        raise CheckpointError(
            f"all {len(found)} checkpoints in {folder} are damaged. "
            "Delete the folder of the run and start it anew."
        )
    return None
