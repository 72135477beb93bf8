"""The options of ``fit`` that ``sweep`` can search, with their ranges. Free of torch and optuna."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from representer.errors import ArgumentError

STRING_KERNEL = "string-kernel"  # whose order and decay other cells of texts lack


@dataclass(frozen=True)
class Range:
    """The values of an option.

    Args:
        low: The least.
        high: The largest.
        is_log: Draw evenly from the logarithms.
    """

    low: float
    high: float
    is_log: bool = False

    def suggest(self, trial: Any, name: str) -> float:
        """Return a value for a trial of optuna; an integer if both ends are integers."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, log=self.is_log)
        return trial.suggest_float(name, self.low, self.high, log=self.is_log)


SPACE = {
    "lr": Range(3e-4, 3e-2, is_log=True),
    "hidden_size": Range(16, 256, is_log=True),
    "dropout": Range(0.0, 0.6),
    "num_layers": Range(1, 3),
    "depth": Range(1, 5),
    "filter_length": Range(1, 4),
    "order": Range(1, 4),
    "decay": Range(0.1, 0.9),
    "weight_decay": Range(1e-6, 1e-2, is_log=True),
    "embedding_size": Range(16, 256, is_log=True),
}
USUAL = ("lr", "hidden_size", "dropout", "num_layers", "depth")


def searched(config: Any, names: str | None) -> dict[str, Range]:
    """Return the options to search.

    Args:
        config: The options of ``fit``.
        names: Their names, comma-separated; by default those of `USUAL` that the task has.

    Raises:
        ArgumentError: A name is unknown, or the model lacks the option.
    """
    own = {field.name for field in fields(config)}
    has_kernel_options = getattr(config, "cell", STRING_KERNEL) == STRING_KERNEL
    lacking = set() if has_kernel_options else {"order", "decay"}
    known = [name for name in SPACE if name in own - lacking]
    if names is None:
        return {name: SPACE[name] for name in known if name in USUAL}
    chosen = [word.strip().replace("-", "_") for word in names.split(",") if word.strip()]
    if not chosen or not set(chosen) <= set(known):
        expected = f"some of {', '.join(name.replace('_', '-') for name in known)}"
        raise ArgumentError("space", names, expected)
    return {name: SPACE[name] for name in chosen}
