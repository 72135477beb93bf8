"""A graph that runs on the CPU and keeps the rules of a CUDA graph.

What is captured is not computed before it is replayed, and replaying runs on the tensors of the
capture and draws random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves


class GraphOnCpu:
    """A graph that runs its Python code again."""

    made: list[GraphOnCpu] = []  # noqa: RUF012  (emptied by the fixtures)

    def __init__(self) -> None:
        self.replays = 0
        self.made.append(self)

    def capture(self, body: Callable[[], Any]) -> Any:
        """Run the body, take its random numbers back, and make its results NaN."""
        before = torch.get_rng_state()
        self.body, self.results = body, body()
        torch.set_rng_state(before)
        for x in _tensors(self.results):
            x.fill_(float("nan"))
        return self.results

    def replay(self) -> None:
        """Run the body again, and write its results where those of the capture are."""
        self.replays += 1
        for own, new in zip(_tensors(self.results), _tensors(self.body()), strict=True):
            own.copy_(new)


def _tensors(results: Any) -> list[Tensor]:
    return [x for x in tree_leaves(results) if isinstance(x, Tensor)]
