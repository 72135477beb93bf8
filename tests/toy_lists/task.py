"""The task ``lists``: its options, and its functions by name. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from representer.checks import require_integers
from representer.options.task import (
    RunConfig,
    TargetParameters,
    Task,
    config_of,
    defaults_with,
    option,
)


@dataclass(frozen=True)
class Reading:
    """Options of reading: none."""


@dataclass(kw_only=True, eq=False, repr=False)
class ListParameters(TargetParameters):
    """Parameters of the estimator, which are options of ``fit`` too."""

    answer: str = option("network", "what predicts: there is no kernel", choices=("network",))
    hidden_size: int = option(16, "hidden units")

    def check(self) -> None:
        """Check every value."""
        super().check()
        require_integers(self, 1, "hidden_size")


ListConfig: Any = config_of("ListConfig", __name__, Reading, ListParameters, base=RunConfig)


LISTS = Task(
    name="lists",
    summary="Train a classifier of lists of numbers.",
    noun="lists",
    config=ListConfig,
    defaults=defaults_with(ListConfig, {"epochs": 5, "threads": 1}),
    options={"evaluate": (Reading,), "predict": (Reading,), "explain": (Reading,)},
    functions={
        **{name: f"toy_lists.lists:{name}" for name in ("fit", "evaluate", "predict", "explain")},
        "as_text": "representer.tasks.use:as_text",
    },
    estimators=("toy_lists.lists:ListClassifier",),
)
