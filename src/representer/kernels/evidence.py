r"""Weights of a sum of kernels by the marginal likelihood of a Gaussian process.

    K = sum_b a_b K_b + s I,        2 L = K' y^T K^-1 y + C log |K|

for C targets y that share the weights. Without a test set, L prefers kernels that explain the
targets with few degrees of freedom: a level of a hierarchy that adds nothing gets the weight 0.
Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 5.4.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs
from scipy.optimize import minimize

from representer.threads import limited, threads_for

BOUND = 9.0  # of the logarithm of a weight, relative to targets of variance 1
START_NOISE, STEPS, JITTER = 0.1, 60, 1e-8


def block_weights(
    blocks: Sequence[NDArray[np.float64]], targets: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return the weight of each kernel and the variance of the noise, for standardized targets.

    Args:
        blocks: Gram matrices of the kernels ``(N, N)``.
        targets: Numbers ``(N, C)``, of which at least one column is not constant.
    """
    spread = targets.std(0)
    y = ((targets - targets.mean(0)) / np.where(spread > 0, spread, 1.0))[:, spread > 0]
    if not y.shape[1]:
        return np.full(len(blocks), 1 / len(blocks)), 1.0
    start = np.log([*np.ones(len(blocks)), START_NOISE])
    with limited(threads_for(len(y) ** 2)):
        found = minimize(
            lambda logs: _loss(logs, blocks, y), start, jac=True, method="L-BFGS-B",
            bounds=[(-BOUND, BOUND)] * len(start), options={"maxiter": STEPS},
        )  # fmt: skip
    *weights, noise = np.exp(found.x).tolist()
    return np.array(weights), noise


def _loss(
    logs: NDArray[np.float64], blocks: Sequence[NDArray[np.float64]], y: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return L and its gradient with respect to the logarithms of the weights and the noise."""
    *weights, noise = np.exp(logs).tolist()
    covariance = np.zeros((len(y), len(y)))
    for weight, block in zip(weights, blocks, strict=True):
        covariance += weight * block
    covariance.flat[:: len(y) + 1] += noise + JITTER
    factorize, invert = get_lapack_funcs(("potrf", "potri"), (covariance,))
    root, failed = factorize(covariance, lower=1, overwrite_a=1)
    if failed:
        return 1e12, np.zeros_like(logs)
    determinant = 2 * float(np.log(np.diag(root)).sum())
    inverse, _ = invert(root, lower=1, overwrite_c=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    solved = inverse @ y
    count = y.shape[1]
    rest = count * inverse - solved @ solved.T
    loss = (float((y * solved).sum()) + count * determinant) / 2
    slopes = [weight * float((rest * block).sum()) for weight, block in
              zip(weights, blocks, strict=True)]  # fmt: skip
    return loss, np.array([*slopes, noise * float(np.trace(rest))]) / 2
