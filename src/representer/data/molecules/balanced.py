"""Resampling of training examples, so that rare and common target values occur equally often."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from representer.errors import ArgumentError


class BalancedDraws:
    """The resampling of L17: draw a bin of the target, then use the next example of the bin.

    All bins have the same width; empty bins are never drawn. The examples of each bin are shuffled
    once and used in turn, across epochs. The examples of an epoch depend only on seed and epoch.

    Args:
        values: The target of each example.
        width: Width of a bin, in the unit of the target; L17's code uses 0.05.
        seed: Seed of the order and the draws.

    Raises:
        ArgumentError: If there are no examples, a value is not finite, or the width is not
            positive.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 6.3, and the authors' code.
    """

    def __init__(self, values: Sequence[float], width: float = 0.05, seed: int = 0) -> None:
        if not 0 < width < math.inf:
            raise ArgumentError("width", width, "a positive number")
        numbers = np.asarray(values, dtype=np.float64)
        if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
            raise ArgumentError("values", numbers.shape, "at least one finite number")
        order = np.random.default_rng((seed, 0)).permutation(len(numbers))
        kinds = np.unique(np.floor(numbers / width), return_inverse=True)[1]
        by_bin = order[np.argsort(kinds[order], kind="stable")]
        self._seed = seed
        self._counts = np.bincount(kinds)
        self._bins = np.split(by_bin, np.cumsum(self._counts)[:-1])
        self._taken: list[NDArray[np.int64]] = [np.zeros(len(self._bins), dtype=np.int64)]

    @property
    def bins(self) -> int:
        """Return the number of non-empty bins."""
        return len(self._bins)

    def epoch(self, epoch: int, count: int | None = None) -> list[int]:
        """Return the examples of an epoch.

        Args:
            epoch: Number of the epoch, from 0.
            count: Number of draws in every epoch; by default the number of examples.
        """
        size = int(self._counts.sum()) if count is None else count
        while len(self._taken) <= epoch:  # number of examples used per bin
            drawn = self._draw(len(self._taken) - 1, size)
            self._taken.append(self._taken[-1] + np.bincount(drawn, minlength=self.bins))
        at = self._taken[epoch].copy()
        examples = []
        for chosen in self._draw(epoch, size).tolist():
            members = self._bins[chosen]
            examples.append(int(members[at[chosen] % len(members)]))
            at[chosen] += 1
        return examples

    def _draw(self, epoch: int, count: int) -> NDArray[np.int64]:
        return np.random.default_rng((self._seed, 1, epoch)).integers(self.bins, size=count)
