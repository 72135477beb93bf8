r"""What the networks and a Gaussian process on their last layers answer together.

.. math::
    y = a\, \mu + (1 - a)\, m, \qquad
    v = a\, v_\mu + (1 - a)\, v_m + a (1 - a) (\mu - m)^2

with μ and v_μ of the process, m and v_m the mean and the variance of the networks' answers: mean
and variance of a mixture of the two. a is that of the least squares on the validation molecules,
between 0 and 1, for each target. Where molecules are near to known ones the process errs less, on
new scaffolds the networks do; validation molecules of the same split show which it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = tuple[NDArray[np.float64], NDArray[np.float64]]  # answers and variances (N, K)


def process_parts(
    process: NDArray[np.float64], networks: NDArray[np.float64], truth: NDArray[np.float64]
) -> tuple[float, ...]:
    """Return a of each target; 0 where nothing tells the two apart.

    Args:
        process: Its answers for validation molecules ``(N, K)``.
        networks: Their mean answers.
        truth: NaN where there is none.
    """
    apart = process - networks
    wanted = np.nansum(apart * (truth - networks), axis=0)
    squares = np.where(np.isnan(truth), 0.0, apart**2).sum(axis=0)
    parts = np.divide(wanted, squares, out=np.zeros_like(wanted), where=squares > 0)
    return tuple(parts.clip(0, 1).tolist())


def mixture(parts: tuple[float, ...], process: Numbers, networks: Numbers) -> Numbers:
    """Return answers and variances of both together.

    Args:
        parts: a of each target.
        process: Of the Gaussian process, the noise included.
        networks: Mean and variance of the members' answers.
    """
    a = np.asarray(parts)
    apart = process[0] - networks[0]
    variances = a * process[1] + (1 - a) * networks[1] + a * (1 - a) * apart**2
    return networks[0] + a * apart, variances
