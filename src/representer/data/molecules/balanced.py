"""Training examples drawn so that rare values of the target are seen as often as common ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from representer.errors import ArgumentError


class BalancedDraws:
    """L17's re-sampling: a bin of the target is drawn, and the next example of it taken.

    Bins have one width; those without an example are not drawn. Each bin's examples are in one
    order, shuffled once, and taken in turn, over the ends of epochs too. What an epoch draws is a
    function of seed and epoch alone.

    Args:
        values: The target of each example.
        width: Of a bin, in the unit of the target; L17's code has 0.05.
        seed: Of order and draws.

    Raises:
        ArgumentError: If there is no example, a value is not finite, or the width is not positive.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 6.3, and the authors' code.
    """

    def __init__(self, values: Sequence[float], width: float = 0.05, seed: int = 0) -> None:
        if not 0 < width < math.inf:
            raise ArgumentError("width", width, "a number above 0")
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
        """How many bins hold an example."""
        return len(self._bins)

    def epoch(self, epoch: int, count: int | None = None) -> list[int]:
        """Return the examples of an epoch.

        Args:
            epoch: Its number, from 0.
            count: How many to draw in every epoch; as many as there are if left out.
        """
        size = int(self._counts.sum()) if count is None else count
        while len(self._taken) <= epoch:  # what the epochs before have taken of each bin
            drawn = self._draw(len(self._taken) - 1, size)
            self._taken.append(self._taken[-1] + np.bincount(drawn, minlength=self.bins))
        at = self._taken[epoch].copy()
        found = []
        for chosen in self._draw(epoch, size).tolist():
            members = self._bins[chosen]
            found.append(int(members[at[chosen] % len(members)]))
            at[chosen] += 1
        return found

    def _draw(self, epoch: int, count: int) -> NDArray[np.int64]:
        return np.random.default_rng((self._seed, 1, epoch)).integers(self.bins, size=count)
