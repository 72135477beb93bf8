"""The checkpoints of one run: new files, the newest few kept, the newest sound one found."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from representer.errors import CheckpointError, NewerCheckpointError
from representer.storage.checkpoint.checkpoint import Checkpoint, load, save
from representer.storage.failpoints import failpoint

_NAME = re.compile(r"step-([0-9]{9,})\.ckpt")


def path_of_step(folder: str | Path, step: int) -> Path:
    """Return where the checkpoint of a step lies, for example ``step-000000400.ckpt``."""
    return Path(folder) / f"step-{step:09d}.ckpt"


def steps(folder: str | Path) -> list[int]:
    """Return the steps of which a folder has a checkpoint, sound or not, oldest first."""
    folder = Path(folder)
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def save_step(
    folder: str | Path, checkpoint: Checkpoint, *, report: Callable[[str], None], keep: int = 2
) -> Path:
    """Write the checkpoint of a step, and only then delete those no longer needed.

    Later ones than the new one are deleted too: `latest` found them damaged, and the run went
    on from an earlier one.

    Args:
        folder: Where the run's checkpoints lie.
        checkpoint: What to write.
        report: Is told of a file that cannot be deleted, which is no reason to stop.
        keep: How many remain, the new one included.

    Returns:
        The file.

    Raises:
        StorageError: The system refuses; the earlier checkpoints are all there.
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
    """Read the newest checkpoint that is sound.

    Args:
        folder: Where the run's checkpoints lie; it may be missing.
        report: Is told of each damaged one that is passed over.

    Returns:
        The checkpoint, or None where there is no file of one.

    Raises:
        NewerCheckpointError: A newer version of the library wrote it: to go back behind it would
            throw work away.
        CheckpointError: There are files, and all of them are damaged.
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
