"""The next objects to measure: batch expected improvement over a finite pool."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from representer.errors import ArgumentError
from representer.estimators.explanation import NETWORK
from representer.estimators.kernel_machine import KernelMachine

MOST = 4000  # objects whose joint distribution is found; of more, those that improve most alone


class Suggestion(NamedTuple):
    """An object to measure."""

    position: int  # in the pool
    mean: float  # its prediction
    std: float  # the standard deviation of its true value, without noise
    improvement: float  # its expected improvement, given the suggestions before it, over its cost


def expected_improvement(
    mean: NDArray[np.float64], std: NDArray[np.float64], best: float
) -> NDArray[np.float64]:
    r"""Return :math:`E \max(f - b, 0)` of Gaussian f ``(N,)``.

    References:
        Jones et al., Efficient Global Optimization of Expensive Black-Box Functions, 1998, (15).
    """
    positive = np.maximum(std, 1e-12)
    z = (mean - best) / positive
    return np.maximum(positive * (z * norm.cdf(z) + norm.pdf(z)), 0.0)


def choose(
    mean: NDArray[np.float64], covariance: NDArray[np.float64], noise: float, best: float,
    costs: NDArray[np.float64], is_allowed: NDArray[np.bool_], k: int,
) -> list[Suggestion]:  # fmt: skip
    """Return k objects, each with the largest expected improvement given those before it.

    A chosen object counts as measured, with its prediction as the result ("kriging believer"): the
    means stay, and the covariance is that of the process with one more observation. What resembles
    a chosen object thus improves little, so that the batch is diverse. Of each object there are
    mean ``(N,)`` and covariance ``(N, N)`` of its value without the noise of a measurement, its
    cost, and whether it may be chosen.

    References:
        Ginsbourger et al., Kriging Is Well-Suited to Parallelize Optimization, 2010.
    """
    left, is_left, result = covariance.copy(), is_allowed.copy(), []
    first = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    for _ in range(k):
        std = np.sqrt(np.maximum(np.diag(left), 0.0))
        values = np.where(is_left, expected_improvement(mean, std, best) / costs, -np.inf)
        values[is_left] += (
            1e-300 * mean[is_left]
        )  # of improvements that are all 0, the largest mean
        chosen = int(values.argmax())
        numbers = mean[chosen], first[chosen], max(values[chosen], 0.0)
        result.append(Suggestion(chosen, *map(float, numbers)))
        is_left[chosen], best = False, max(best, float(mean[chosen]))
        column = left[:, chosen]
        left = left - np.outer(column, column) / (column[chosen] + noise + 1e-12)
    return result


def suggestions(
    estimator: Any, pool: Any, k: int = 10, *, maximize: bool = True, costs: Any = None,
    allowed: Any = None, best: float | None = None, target: int = 0,
) -> list[Suggestion]:  # fmt: skip
    """Return the objects of a pool to measure next, see `Regressor.suggest`."""
    objects = estimator.checked_objects(pool)
    count = len(objects)
    cost = np.ones(count) if costs is None else np.asarray(costs, np.float64)
    if cost.shape != (count,) or not (np.isfinite(cost) & (cost > 0)).all():
        raise ArgumentError("costs", costs, f"{count} positive numbers, one of each object")
    mask = np.ones(count, bool) if allowed is None else np.asarray(allowed)
    if mask.shape != (count,) or mask.dtype != np.bool_:
        raise ArgumentError("allowed", allowed, f"{count} booleans, one of each object")
    is_first = np.zeros(count, bool)
    is_first[np.unique(estimator.digests(objects), return_index=True)[1]] = True
    mask = mask & is_first
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= mask.sum():
        expected = f"1 to {mask.sum()}, the number of distinct objects that are allowed"
        raise ArgumentError("k", k, expected)
    if not 0 <= target < len(estimator.targets_):
        raise ArgumentError("target", target, f"0 to {len(estimator.targets_) - 1}")
    machine: KernelMachine | None = estimator.targets_[target].machine
    if estimator.answer == NETWORK or machine is None or not machine.has_posterior:
        hint = "Train with answer='kernel' or 'both'."
        raise ArgumentError("answer", estimator.answer, "one with a Gaussian process", hint=hint)
    sign = 1.0 if maximize else -1.0
    mean, std = (moment.reshape(count, -1)[:, target] for moment in
                 estimator.predict(objects, return_std=True))  # fmt: skip
    scale, offset = estimator.target_.scales[target], estimator.target_.means[target]
    measured = offset + scale * machine.landmark_scores()[:, 0]
    mean, best = sign * mean, float((sign * measured).max()) if best is None else sign * best
    order = np.arange(count)
    if count > MOST:
        alone = np.where(mask, expected_improvement(mean, std, best) / cost, -np.inf)
        order = np.sort(np.argsort(-alone, kind="stable")[: max(MOST, k)])
    some = estimator.kernel_objects([objects[i] for i in order])
    covariance, noise = machine.posterior(some)
    unit = float(np.mean(std[order] ** 2)) / float(np.mean(np.diag(covariance)) + noise)
    picks = choose(
        mean[order], covariance * unit, noise * unit, best, cost[order], mask[order], k
    )  # fmt: skip
    return [p._replace(position=int(order[p.position]), mean=sign * p.mean) for p in picks]
