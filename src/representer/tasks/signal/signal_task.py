"""The task ``signal``: classification of recordings of several subjects."""

from __future__ import annotations

from representer.tasks.signal.signal_config import (
    SignalConfig,
    SignalReading,
    Streaming,
    defaults,
)
from representer.tasks.task import Task

_HOME = "representer.tasks.signal"
SIGNAL = Task(
    name="signal",
    summary="Train a model of signals on recordings of several subjects, leaving each out in turn.",
    noun="signals",
    config=SignalConfig,
    defaults=lambda given: defaults(demo=given.demo),
    options={"evaluate": (SignalReading,), "predict": (SignalReading, Streaming)},
    functions={
        "fit": f"{_HOME}.signal_fit:fit",
        "evaluate": f"{_HOME}.signal_use:evaluate",
        "predict": f"{_HOME}.signal_use:predict",
    },
)
