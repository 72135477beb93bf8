"""Which of the processes that share one training writes its files."""

from __future__ import annotations

import os
from datetime import timedelta

from representer.errors import MissingExtraError

PATIENCE = timedelta(seconds=120)  # torch's 30 minutes let a dead process go unnoticed
_LAUNCHED = ("LOCAL_RANK", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE")


def is_main_process() -> bool:
    """Return True if this process is the one that writes.

    Accelerate decides, since `training.workers.accelerator_for` follows it: a ``RANK`` alone, left
    over in the environment, does not make a group of processes. A process that no launcher has
    started is the main one and needs no Accelerate.
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
