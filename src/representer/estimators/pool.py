"""Stacking: the weights with which a kernel machine and a network predict together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from representer.errors import TrainingError
from representer.estimators.explanation import Contribution
from representer.estimators.targets import Column, Weighted

Explained = tuple[float, float, list[Contribution]]  # score, constant part, contributions
POOL_FILE = "pool.json"
Moments = tuple[NDArray[np.float64], NDArray[np.float64]]  # scores and their variances (N, W)

# examples that the prior of equal weights is worth: fewer where the better part alone has a smaller
# loss than both with this prior, and without a prior, no part has
PRIORS = (4.0, 1.0, 0.1, 0.0)
CAUTION = 15.0  # the same of a prior of the kernel machine alone, see `Pool.cautious`
NEGLIGIBLE = 0.02  # share of the scores below which a part is dropped


@dataclass(frozen=True)
class Pool:
    r"""A weighted sum of the scores of two parts: a log-linear pool of classes, or of numbers.

    .. math::
        s = a\, s_\text{kernel} + b\, s_\text{network}, \qquad a, b \ge 0

    The probabilities are softmax(s), so that a + b also sets the temperature; numbers are
    standardized. Since s is linear in both, so are its explanations.

    Args:
        kernel: a.
        network: b.
        share: The kernel's part of the spread of s, between 0 and 1.
        loss: Of s on the validation objects; without any, on those of `unvalidated`.
        kernel_loss: Of the kernel machine alone; None if there is no machine.
        network_loss: Of the network alone; None if there is no network.
    """

    kernel: float
    network: float
    share: float
    loss: float
    kernel_loss: float | None = None
    network_loss: float | None = None

    @classmethod
    def fit(
        cls, target: Column | Weighted, kernel: NDArray[np.float64] | None,
        network: NDArray[np.float64] | None, values: NDArray[Any], groups: int | None = None,
    ) -> Self:  # fmt: skip
        """Return the weights with the smallest loss on objects that neither part was trained on.

        This loss is never above that of the better part. A part that adds less than 2 % is dropped.
        Scores are ``(N, W)``, None of a part that is missing. ``groups`` is the number of those
        whose objects resemble each other, such as the windows of a subject; the prior then counts
        groups, not objects.
        """
        losses = [
            None if scores is None else target.metrics(scores, values)["valid_loss"]
            for scores in (kernel, network)
        ]
        if kernel is None and network is None:
            raise TrainingError("Neither the kernel machine nor the network has finite scores.")
        if kernel is None or network is None:
            return cls._alone(*losses)
        most = min(loss for loss in losses if loss is not None)
        parts, count = np.stack([kernel, network]), groups or len(values)
        data = target, parts, values
        # each weight is measured in that of its part alone, which of a diverged one is minute
        alone = np.array([_weight_alone(target, part, values, count) for part in parts])
        halves = [cls._of(*data, own) for own in (*np.diag(alone), *np.eye(2)) if own.any()]
        better = min(halves, key=lambda pool: pool.loss)
        for prior, start in product(PRIORS, np.eye(2)):
            found = _weights(
                target, alone[:, None, None] * parts, values, 0.5, start, prior / count
            )
            both = cls._of(*data, alone * found)
            if both.loss <= most:
                is_kept = NEGLIGIBLE <= both.share <= 1 - NEGLIGIBLE
                return both if is_kept else better
        return better

    @classmethod
    def cautious(
        cls, target: Column | Weighted, kernel: NDArray[np.float64], network: NDArray[np.float64],
        values: NDArray[Any],
    ) -> Self:  # fmt: skip
        """Return the weights on few objects, with a prior of the kernel machine alone.

        The machine is fitted again to the validation objects, too, which are then a large part of
        all; the network is not. So the weights that are best here give the network too much. The
        arguments are those of `fit`.
        """
        parts, count = np.stack([kernel, network]), len(values)
        alone = np.array([_weight_alone(target, own, values, count) for own in parts])
        center = torch.tensor([1.0, 0.0], dtype=torch.float64)
        scaled = alone[:, None, None] * parts
        found = _weights(target, scaled, values, center, np.eye(2)[0], CAUTION / count)
        weights = alone * found
        if not weights.any():  # neither tells anything about these objects
            return cls.fit(target, kernel, network, values)
        return cls._of(target, parts, values, weights)

    @classmethod
    def unvalidated(
        cls, target: Column | Weighted, kernel: NDArray[np.float64] | None,
        network: NDArray[np.float64] | None, values: NDArray[Any],
    ) -> Self:  # fmt: skip
        """Return the weights where no objects were held out.

        s has the spread of the kernel machine's scores at the temperature with the smallest loss.
        The network makes up half of it, or as much as half of its scores: one that was trained too
        briefly less, one with which the loss is above that of the machine none. How confident it is
        on its training objects has no influence otherwise. Scores are those of the training
        objects, of a machine that was not fitted to them, and None of a part that is missing.
        """
        if kernel is None or network is None:
            return cls.fit(target, kernel, network, values)
        parts = np.stack([kernel, network])
        scale = _weight_alone(target, kernel, values, len(values))
        spreads = scale * _spread(kernel), _spread(network)
        weights = np.array([0.0, 1.0])  # where the kernel machine learned nothing
        if spreads[0]:
            weights[1] = min(1.0, spreads[0] / spreads[1]) / 2 if spreads[1] else 0.0
            weights[0] = scale * (1 - weights[1] * spreads[1] / spreads[0])
        both, machine = (cls._of(target, parts, values, own) for own in (weights, np.eye(2)[0]))
        return both if both.loss <= machine.loss else machine

    @classmethod
    def _of(
        cls, target: Column | Weighted, parts: NDArray[np.float64], values: NDArray[Any],
        weights: NDArray[np.float64],
    ) -> Self:  # fmt: skip
        """Return the pool with these weights ``(2,)``."""
        spreads = weights * np.array([_spread(part) for part in parts])
        kernel, network = (spreads if spreads.any() else weights).tolist()
        share = kernel / (kernel + network) if weights.any() else 0.0
        first, second = weights.tolist()
        loss, *alone = (
            target.metrics(scores, values)["valid_loss"]
            for scores in (np.tensordot(weights, parts, 1), *parts)
        )
        return cls(first, second, share, loss, alone[0], alone[1])

    @classmethod
    def _alone(cls, kernel_loss: float | None, network_loss: float | None) -> Self:
        """Return the weights of the part that has a loss, without the other one."""
        loss = network_loss if kernel_loss is None else kernel_loss
        assert loss is not None
        is_kernel = float(kernel_loss is not None)
        return cls(is_kernel, 1 - is_kernel, is_kernel, loss, kernel_loss, network_loss)

    def only_kernel(self) -> Self:
        """Return the weights of the kernel machine alone."""
        return self._alone(self.kernel_loss, None)

    def only_network(self) -> Self:
        """Return the weights of the network alone."""
        return self._alone(None, self.network_loss)

    def scores(
        self, kernel: NDArray[np.float64] | None, network: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """Return s of both parts' scores ``(N, W)``; a part of weight 0 may be None."""
        weighted = (self.kernel, kernel), (self.network, network)
        parts = [weight * scores for weight, scores in weighted if scores is not None]
        return sum(parts[1:], parts[0])

    def explain(
        self, kernel: Callable[[], Explained], network: Callable[[], Explained]
    ) -> Explained:
        """Return score, constant part and contributions of both parts, each with its weight."""
        score, constant, contributions = 0.0, 0.0, []
        for weight, explain in ((self.kernel, kernel), (self.network, network)):
            if weight:
                own, fixed, found = explain()
                score, constant = score + weight * own, constant + weight * fixed
                contributions += [
                    part._replace(contribution=weight * part.contribution) for part in found
                ]
        return score, constant, contributions

    def moments(self, kernel: Moments | None, network: Moments | None) -> Moments:
        r"""Return s and the variance of a mixture of both parts, which a and b are the shares of.

        .. math:: v = p\, v_k + (1 - p)\, v_n + p (1 - p) (s_k - s_n)^2, \qquad p = a / (a + b)

        A part of weight 0 may be None.
        """
        if network is None or not self.network:
            assert kernel is not None
            return self.scores(kernel[0], None), kernel[1]
        if kernel is None or not self.kernel:
            return self.scores(None, network[0]), network[1]
        p = self.kernel / (self.kernel + self.network)
        apart = (kernel[0] - network[0]) ** 2
        variance = p * kernel[1] + (1 - p) * network[1] + p * (1 - p) * apart
        return self.scores(kernel[0], network[0]), variance

    def check(self) -> None:
        """Check every value."""
        losses = (self.loss, self.kernel_loss or 0.0, self.network_loss or 0.0)
        numbers = np.array([self.kernel, self.network, *losses])
        if not (np.isfinite(numbers) & (numbers >= 0)).all() or not 0 <= self.share <= 1:
            raise ValueError("the weights are out of their range")


def _centered(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return scores - scores.mean(axis=1, keepdims=True) if scores.shape[1] > 1 else scores


def _spread(scores: NDArray[np.float64]) -> float:
    return float(_centered(scores).std())


def _weight_alone(
    target: Column | Weighted, scores: NDArray[np.float64], values: NDArray[Any], count: int
) -> float:
    """Return the weight of one part without the other; the prior is 1."""
    size = float(np.square(_centered(scores)).mean()) ** 0.5 or 1.0
    start, prior = np.array([min(1.0, size)]), PRIORS[0] / max(1.0, size) ** 2 / count
    return float(_weights(target, scores[None] / size, values, size, start, prior)[0]) / size


def _weights(
    target: Column | Weighted, parts: NDArray[np.float64], values: NDArray[Any],
    center: float | Tensor, start: NDArray[np.float64], prior: float,
) -> NDArray[np.float64]:  # fmt: skip
    """Return the weights ``(P,)`` that minimize the penalized loss, which is convex."""
    scores, truth = torch.from_numpy(parts), torch.from_numpy(values)

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        leaf = torch.tensor(weights, requires_grad=True)
        # not that of `metrics`, which bounds the chances: far from the minimum, it is flat
        total = target.loss(torch.tensordot(leaf, scores, 1), truth)
        total = total + prior * (leaf - center).square().sum()
        (slopes,) = torch.autograd.grad(total, leaf)
        return total.item(), slopes.numpy()

    bounds = [(0.0, None)] * len(start)
    return minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x


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
