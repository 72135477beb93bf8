"""The weights that a training wrote, with their metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from representer.storage.checkpoint import read_tensors


def read_weights(path: str | Path) -> tuple[dict[str, Tensor], Any]:
    """Return the weights of a file, and the row of metrics in its header."""
    tensors, metadata = read_tensors(path)
    return tensors, json.loads(metadata["metrics"])
