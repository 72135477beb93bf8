"""Checkpoints: complete or absent, checked by a digest, free of code."""

from __future__ import annotations

from representer.storage.checkpoint.checkpoint import Checkpoint, load, save
from representer.storage.checkpoint.series import latest, path_of_step, save_step, steps

__all__ = ["Checkpoint", "latest", "load", "path_of_step", "save", "save_step", "steps"]
