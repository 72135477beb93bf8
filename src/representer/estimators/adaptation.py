"""Options of adapting a language model to the test text.

Free of torch, since the command line reads its options here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from representer.errors import ArgumentError
from representer.estimators.parameters import option


@dataclass(frozen=True)
class Adaptation:
    """Options of evaluation with a continuous cache and with dynamic evaluation.

    Raises:
        ArgumentError: If a value is out of its range, or has no effect.
    """

    cache_share: float = option(0.0, "language models: weight of a continuous cache; 0: none")
    cache_theta: float = option(0.3, "weight of the similarity to the states in the cache")
    cache_window: int = option(2000, "tokens in the cache")
    dynamic_lr: float = option(0.0, "language models: learning rate of dynamic evaluation; 0: none")
    dynamic_decay: float = option(0.0, "rate at which its weights return to the trained ones")

    def __post_init__(self) -> None:
        for name in ("cache_share", "dynamic_decay"):
            self._require(name, 0 <= getattr(self, name) <= 1, "a number from 0 to 1")
        self._require("cache_theta", math.isfinite(self.cache_theta), "a finite number")
        self._require("cache_window", self.cache_window >= 1, "1 or more")
        self._require("dynamic_lr", 0 <= self.dynamic_lr < math.inf, "a finite number ≥ 0")
        is_used = {"cache_theta": self.cache_share, "cache_window": self.cache_share}
        is_used["dynamic_decay"] = self.dynamic_lr
        for name, share in is_used.items():
            default = self.__dataclass_fields__[name].default
            is_fine = bool(share) or getattr(self, name) == default
            self._require(name, is_fine, f"{default} without {_SWITCH[name]}")

    def _require(self, name: str, is_fine: bool, expected: str) -> None:
        if not is_fine:
            raise ArgumentError(name, getattr(self, name), expected)


_SWITCH = {
    "cache_theta": "--cache-share",
    "cache_window": "--cache-share",
    "dynamic_decay": "--dynamic-lr",
}
