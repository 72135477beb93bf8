r"""Calibrated uncertainties of an ensemble: variance of its members, scaled, plus noise.

The standard deviation of a prediction is :math:`\sqrt{a\,v + b}` with v the variance of the
predictions of the members; a and b maximize the likelihood of the validation part, on which the
members have not been trained.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SCALES = (0.0, *(2.0**k for k in range(-4, 9)))
_NOISES = tuple(2.0 ** (k / 4) for k in range(-24, 5))


@dataclass(frozen=True)
class Calibration:
    """a and b of each target; b has the squared unit of the target."""

    scales: tuple[float, ...]
    noises: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse numbers out of their range, which may come from a file."""
        if len(self.scales) != len(self.noises) or min((*self.scales, *self.noises)) < 0:
            raise ValueError("the calibration is not a pair of positive numbers for each target")

    def deviations(self, variances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the standard deviation of each prediction ``(N, K)``."""
        return np.sqrt(np.asarray(self.scales) * variances + np.asarray(self.noises))


UNCALIBRATED = Calibration((1.0,), (0.0,))  # while training has not ended


def calibrate(
    predictions: NDArray[np.float64], variances: NDArray[np.float64], truth: NDArray[np.float64]
) -> Calibration:
    """Return a and b by maximum likelihood.

    The search is over a grid: a from 0 to 256, b around the mean squared error.

    Args:
        predictions: For validation molecules ``(N, K)``.
        variances: Variances of the predictions of the members.
        truth: True values, NaN where unknown.
    """
    found = [_fit(*(part[:, k] for part in (predictions, variances, truth)))
             for k in range(truth.shape[1])]  # fmt: skip
    return Calibration(tuple(a for a, _ in found), tuple(b for _, b in found))


def _fit(
    predictions: NDArray[np.float64], variances: NDArray[np.float64], truth: NDArray[np.float64]
) -> tuple[float, float]:
    rows = ~np.isnan(truth)
    squares = (predictions - truth)[rows] ** 2
    if not len(squares):
        return 1.0, 0.0
    v, mean = variances[rows], float(squares.mean()) or 1e-12
    total = np.asarray(_SCALES)[:, None, None] * v + (np.asarray(_NOISES) * mean)[:, None]
    losses = (np.log(total) + squares / total).mean(-1)
    losses[1:] += 1e-9  # prefer scale 0 in a tie
    i, j = np.unravel_index(int(losses.argmin()), losses.shape)
    return _SCALES[i], _NOISES[j] * mean
