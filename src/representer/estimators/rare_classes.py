"""Factor and offsets of the scores of classes, by which a rare class is answered at all.

The scores of a machine in many dimensions are large on the objects that it was fitted to and small
on others, all the more in a class of few. Its intercepts fit the former: a rare class may be ranked
without a mistake and yet never be the largest score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from representer.estimators.kernel_machine import KernelMachine
from representer.estimators.linear_models import CentroidCoefficients, is_ahead
from representer.estimators.targets import Moments

Floats = NDArray[np.float64]


def answered(
    machine: KernelMachine, moments: Moments, values: NDArray[np.int64], weights: Floats | None
) -> tuple[KernelMachine, Moments]:
    """Return a machine of classes and its moments with the factor and offsets of `calibration`.

    They are those of before where the objects, which were held out, are not clearly more often
    right with them; of weights, an object counts as much as its weight.

    Args:
        machine: The machine; its scores change in place.
        moments: Means ``(N, K)`` and variances of scores.
        values: The classes ``(N,)``.
        weights: Of the objects ``(N,)``.
    """
    of_rows = np.ones(len(values)) if weights is None else weights
    factor, offsets = calibration(moments[0], values, of_rows)
    scores = factor * moments[0] + offsets
    if not is_ahead(scores, moments[0], values, of_rows):
        return machine, moments
    coefficients = machine.coefficients
    is_product = isinstance(coefficients, CentroidCoefficients)
    machine.coefficients = coefficients.scaled(factor) if is_product else factor * coefficients
    machine.intercepts = factor * machine.intercepts + offsets
    return machine, (scores, factor**2 * moments[1])


def calibration(
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
