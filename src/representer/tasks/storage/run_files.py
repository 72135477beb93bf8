"""Reading what a training left in a run folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from representer.errors import CheckpointError, DataError

WEIGHTS = "model.safetensors"
_MEND = "Name the folder that `representer fit ... --out` wrote."


def describe(folder: Path) -> dict[str, Any]:
    """Return model.json of a run: its task, its model and how its data were read.

    Raises:
        DataError: If the folder is no run.
    """
    if not folder.is_dir():
        raise DataError("there is no such run folder", file=folder, mend=_MEND)
    try:
        described = json.loads(read(folder / "model.json"))
        return described if isinstance(described, dict) else {}
    except ValueError as error:
        mend = "Train again."
        raise DataError(f"is damaged ({error})", file=folder / "model.json", mend=mend) from None


def read(path: Path) -> str:
    """Return the text of a file of a run.

    Raises:
        DataError: If it is not there.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        problem = f"there is no {path.name}; this is no run"
        raise DataError(problem, file=path.parent, mend=_MEND) from None


def load_weights(model: nn.Module, path: Path) -> None:
    """Give a model the weights of a run.

    Raises:
        DataError: If there are none yet.
        CheckpointError: If they are damaged, or of another model.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        mend = "Train it to its first evaluation: representer fit ... --resume"
        raise DataError("there are no weights yet", file=path, mend=mend)
    try:
        model.load_state_dict(load_file(path))
    except (SafetensorError, RuntimeError, OSError) as error:
        first = str(error).strip().splitlines()[0]
        raise CheckpointError(f"{path} does not hold this model's weights: {first}") from None
