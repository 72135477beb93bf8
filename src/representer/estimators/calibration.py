"""Calibration by objects held out: of the deviations of numbers, and of the scores of classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from representer.estimators.kernel_machine import KernelMachine
from representer.estimators.linear_models import CentroidCoefficients, is_ahead
from representer.estimators.targets import Moments

Floats = NDArray[np.float64]


# Calibrated uncertainties of an ensemble: variance of its members, scaled, plus noise.
#
# The standard deviation of a prediction is :math:`\sqrt{a\,v + b}` with v the variance of the
# predictions of the members; a and b maximize the likelihood of the validation part, on which the
# members have not been trained.

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
    fits = [_fit(*(array[:, k] for array in (predictions, variances, truth)))
             for k in range(truth.shape[1])]  # fmt: skip
    return Calibration(tuple(a for a, _ in fits), tuple(b for _, b in fits))


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


# Factor and offsets of the scores of classes, by which a rare class is answered at all.
#
# The scores of a machine in many dimensions are large on the objects that it was fitted to and
# small on others, all the more in a class of few. Its intercepts fit the former: a rare class may
# be ranked without a mistake and yet never have the largest score.


def answered(
    machine: KernelMachine, moments: Moments, values: NDArray[np.int64], weights: Floats | None
) -> tuple[KernelMachine, Moments]:
    """Return a machine of classes and its moments with `factor_and_offsets` of its scores.

    They are those of before where the objects, which were held out, are not clearly more often
    right with them; of weights, an object counts as much as its weight.

    Args:
        machine: The machine; its scores change in place.
        moments: Means ``(N, K)`` and variances of scores.
        values: The classes ``(N,)``.
        weights: Of the objects ``(N,)``.
    """
    of_rows = np.ones(len(values)) if weights is None else weights
    factor, offsets = factor_and_offsets(moments[0], values, of_rows)
    scores = factor * moments[0] + offsets
    if not is_ahead(scores, moments[0], values, of_rows):
        return machine, moments
    coefficients = machine.coefficients
    is_product = isinstance(coefficients, CentroidCoefficients)
    machine.coefficients = coefficients.scaled(factor) if is_product else factor * coefficients
    machine.intercepts = factor * machine.intercepts + offsets
    return machine, (scores, factor**2 * moments[1])


def factor_and_offsets(
    scores: Floats, values: NDArray[np.int64], weights: Floats
) -> tuple[float, Floats]:  # fmt: skip
    r"""Return the factor a and the offsets :math:`b_k` of scores with the smallest loss.

    .. math:: p(k) \propto e^{a s_k + b_k}

    Smoothed labels keep them finite if all are right; classes that do not occur have no offset.

    References:
        Platt, Probabilistic outputs for support vector machines, 1999, for two classes.
    """
    seen, labels = np.unique(values, return_inverse=True)
    count, s = len(labels), scores[:, seen]
    smoothing = len(seen) / (count + len(seen))
    truth = (1 - smoothing) * np.eye(len(seen))[labels] + smoothing / len(seen)
    shares = (weights / weights.sum())[:, None]

    def loss(x: Floats) -> tuple[float, Floats]:
        logs = log_softmax(np.exp(x[0]) * s + x[1:], axis=1)
        errors = shares * (np.exp(logs) - truth)
        gradient = np.exp(x[0]) * (errors * s).sum(), *(errors.sum(0) + x[1:] / count)
        prior = x[1:] @ x[1:] / (2 * count)  # of the offsets: as much as one object
        return float(-(shares * truth * logs).sum() + prior), np.array(gradient)

    best = minimize(loss, np.zeros(1 + len(seen)), jac=True, method="L-BFGS-B",
                    bounds=[(-10, 10), *[(None, None)] * len(seen)]).x  # fmt: skip
    offsets = np.zeros(scores.shape[1])
    offsets[seen] = best[1:]
    return float(np.exp(best[0])), offsets
