r"""Mixture of the predictions of the networks and of a Gaussian process on their last layers.

.. math::
    y = a\, \mu + (1 - a)\, m, \qquad
    v = a\, v_\mu + (1 - a)\, v_m + a (1 - a) (\mu - m)^2

with μ and v_μ of the Gaussian process, m and v_m the mean and the variance of the networks'
predictions: mean and variance of a mixture of the two. The weight a of each target, in [0, 1], is
fitted by least squares on the validation molecules. The Gaussian process is better for molecules
close to the training data, the networks for new scaffolds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = tuple[NDArray[np.float64], NDArray[np.float64]]  # means and variances (N, K)


def gp_weights(
    gp: NDArray[np.float64], networks: NDArray[np.float64], truth: NDArray[np.float64]
) -> tuple[float, ...]:
    """Return the weight a of each target; 0 if both predictions are equal.

    Args:
        gp: Predictions of the Gaussian process for validation molecules ``(N, K)``.
        networks: Mean predictions of the networks.
        truth: NaN where there is none.
    """
    apart = gp - networks
    wanted = np.nansum(apart * (truth - networks), axis=0)
    squares = np.where(np.isnan(truth), 0.0, apart**2).sum(axis=0)
    parts = np.divide(wanted, squares, out=np.zeros_like(wanted), where=squares > 0)
    return tuple(parts.clip(0, 1).tolist())


def mixture(parts: tuple[float, ...], gp: Numbers, networks: Numbers) -> Numbers:
    """Return means and variances of the mixture.

    Args:
        parts: Weight a of each target.
        gp: Mean and variance of the Gaussian process, noise included.
        networks: Mean and variance of the predictions of the members.
    """
    a = np.asarray(parts)
    apart = gp[0] - networks[0]
    variances = a * gp[1] + (1 - a) * networks[1] + a * (1 - a) * apart**2
    return networks[0] + a * apart, variances
