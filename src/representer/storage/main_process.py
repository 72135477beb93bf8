"""Determine which process of a distributed training run writes the files."""

from __future__ import annotations

import os
from datetime import timedelta

from representer.errors import MissingExtraError

PATIENCE = timedelta(seconds=120)  # with torch's 30 minutes, a dead process goes unnoticed
_LAUNCHED = ("LOCAL_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE")


def is_main_process() -> bool:
    """Return True if this process writes the files.

    Accelerate decides, as in `training.workers.accelerator_for`: a stale ``RANK`` in the
    environment alone does not imply a process group. A process not started by a launcher is the
    main one and does not need Accelerate.
    """
    if not any(name in os.environ for name in _LAUNCHED):
        return True
    try:
        from accelerate import PartialState
        from accelerate.utils import parse_flag_from_env
    except ImportError as error:
        raise MissingExtraError("training in several processes", "accelerate", "train") from error
    state = PartialState(cpu=bool(parse_flag_from_env("ACCELERATE_USE_CPU")), timeout=PATIENCE)
    return state.is_main_process
