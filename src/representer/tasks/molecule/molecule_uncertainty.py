r"""How sure an ensemble is of a number: what its members disagree about, and noise.

The deviation of an answer is :math:`\sqrt{a\,v + b}` with v the variance of the members' answers;
a and b are those with the greatest likelihood on the validation part, where the members, having
been trained on the rest, disagree as they will on molecules that are new to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVELS = (0.5, 0.8, 0.9, 0.95)
Z = {0.5: 0.67449, 0.8: 1.28155, 0.9: 1.64485, 0.95: 1.95996}  # two-sided normal quantiles
_SCALES = (0.0, *(2.0**k for k in range(-4, 9)))
_NOISES = tuple(2.0 ** (k / 4) for k in range(-24, 5))


@dataclass(frozen=True)
class Calibration:
    """a and b of each target, b in the square of its unit."""

    scales: tuple[float, ...]
    noises: tuple[float, ...]

    def deviations(self, variances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the deviation of each answer ``(N, K)`` from the members' variance."""
        return np.sqrt(np.asarray(self.scales) * variances + np.asarray(self.noises))

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {"scales": list(self.scales), "noises": list(self.noises)}

    @classmethod
    def from_dict(cls, values: dict[str, Sequence[float]]) -> Calibration:
        """Return what `to_dict` described."""
        return cls(tuple(values["scales"]), tuple(values["noises"]))


def calibrate(
    answers: NDArray[np.float64], variances: NDArray[np.float64], truth: NDArray[np.float64]
) -> Calibration:
    """Return the a and b of greatest likelihood.

    They are searched for on a grid: a from 0 to 256, b about the mean square of the errors.

    Args:
        answers: Of validation molecules ``(N, K)``.
        variances: Of the members' answers.
        truth: NaN where there is none.
    """
    found = [_fit(*(part[:, k] for part in (answers, variances, truth)))
             for k in range(truth.shape[1])]  # fmt: skip
    return Calibration(tuple(a for a, _ in found), tuple(b for _, b in found))


def _fit(
    answers: NDArray[np.float64], variances: NDArray[np.float64], truth: NDArray[np.float64]
) -> tuple[float, float]:
    rows = ~np.isnan(truth)
    squares = (answers - truth)[rows] ** 2
    if not len(squares):
        return 1.0, 0.0
    v, mean = variances[rows], float(squares.mean()) or 1e-12
    total = np.asarray(_SCALES)[:, None, None] * v + (np.asarray(_NOISES) * mean)[:, None]
    losses = (np.log(total) + squares / total).mean(-1)
    losses[1:] += 1e-9  # no scale where it says nothing
    i, j = np.unravel_index(int(losses.argmin()), losses.shape)
    return _SCALES[i], _NOISES[j] * mean


def likelihood(
    answers: NDArray[np.float64], deviations: NDArray[np.float64], truth: NDArray[np.float64]
) -> float:
    """Return the mean negative log density of the truth, in nats; less is better."""
    squares = ((answers - truth) / deviations) ** 2
    return float((np.log(deviations) + squares / 2).mean() + math.log(2 * math.pi) / 2)


def coverage(
    answers: NDArray[np.float64], deviations: NDArray[np.float64], truth: NDArray[np.float64]
) -> dict[str, float]:
    """Return how often the truth lies in the central intervals that promise LEVELS."""
    sizes = np.abs(answers - truth) / deviations
    return {str(level): float((sizes <= Z[level]).mean()) for level in LEVELS}
