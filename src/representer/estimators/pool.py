"""Stacking: the weights with which a kernel machine and a network predict together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from representer.estimators.explanation import Contribution
from representer.estimators.targets import Column

Explained = tuple[float, float, list[Contribution]]  # score, constant part, contributions
FILE = "pool.json"
Moments = tuple[NDArray[np.float64], NDArray[np.float64]]  # scores and their variances (N, W)

PRIOR = 4.0  # examples that the prior of equal weights is worth
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
        cls,
        target: Column,
        kernel: NDArray[np.float64] | None,
        network: NDArray[np.float64] | None,
        values: NDArray[Any],
        groups: int | None = None,
    ) -> Self:
        """Return the weights with the smallest loss on objects that neither part was trained on.

        A part that adds less than 2 % is dropped, and the weight of the other one found again.

        Args:
            target: What is predicted.
            kernel: Scores of the kernel machine ``(N, W)``; None if there is no machine.
            network: Scores of the network ``(N, W)``; None if there is no network.
            values: Encoded targets.
            groups: Number of groups whose objects resemble each other, such as the windows of a
                subject; the prior then counts groups, not objects.
        """
        alone = [
            None if scores is None else target.metrics(scores, values)["valid_loss"]
            for scores in (kernel, network)
        ]
        if kernel is None or network is None:
            return cls._alone(*alone)
        parts = np.stack([kernel, network])
        count = groups or len(values)
        weights = _weights(target, parts, values, np.array([0.5, 0.5]), count)
        spread = weights * np.array([_spread(part) for part in parts])
        share = float(spread[0] / spread.sum()) if spread.sum() > 0 else 0.5
        if min(share, 1 - share) < NEGLIGIBLE:
            kept = np.array([1.0, 0.0]) if share > 0.5 else np.array([0.0, 1.0])
            weights = _weights(target, parts, values, kept, count) * kept
            share = float(kept[0])
        loss = target.metrics(np.tensordot(weights, parts, 1), values)["valid_loss"]
        return cls(float(weights[0]), float(weights[1]), share, loss, *alone)

    @classmethod
    def unvalidated(
        cls,
        target: Column,
        kernel: NDArray[np.float64] | None,
        network: NDArray[np.float64] | None,
        values: NDArray[Any],
    ) -> Self:
        """Return the weights where no objects were held out.

        s has the spread of the kernel machine's scores at the temperature with the smallest loss.
        The network makes up half of it, or as much as half of its scores: one that was trained too
        briefly less. How confident it is on its training objects has no influence otherwise.

        Args:
            target: What is predicted.
            kernel: Scores of the training objects ``(N, W)`` by machines that were not fitted to
                them; None if there is no machine.
            network: The network's scores of the training objects ``(N, W)``; None if there is none.
            values: Encoded targets.
        """
        if kernel is None or network is None:
            return cls.fit(target, kernel, network, values)
        losses = [target.metrics(scores, values)["valid_loss"] for scores in (kernel, network)]
        parts = np.stack([kernel, network])
        scale = float(_weights(target, parts, values, np.array([1.0, 0.0]), len(values))[0])
        spreads = scale * _spread(kernel), _spread(network)
        if not spreads[0]:  # the kernel machine learned nothing
            return cls(0.0, 1.0, 0.0, losses[1], *losses)
        second = min(1.0, spreads[0] / spreads[1]) / 2 if spreads[1] else 0.0
        share = 1 - second * spreads[1] / spreads[0]
        loss = target.metrics(scale * share * kernel + second * network, values)["valid_loss"]
        return cls(scale * share, second, share, loss, *losses)

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
        """Check every value.

        Raises:
            ValueError: One is out of its range.
        """
        losses = (self.loss, self.kernel_loss or 0.0, self.network_loss or 0.0)
        numbers = np.array([self.kernel, self.network, *losses])
        if not (np.isfinite(numbers) & (numbers >= 0)).all() or not 0 <= self.share <= 1:
            raise ValueError("the weights are out of their range")


def _spread(scores: NDArray[np.float64]) -> float:
    centered = scores - scores.mean(axis=1, keepdims=True) if scores.shape[1] > 1 else scores
    return float(centered.std())


def _weights(
    target: Column,
    parts: NDArray[np.float64],
    values: NDArray[Any],
    prior: NDArray[np.float64],
    count: int,
) -> NDArray[np.float64]:
    """Return the weights ``(2,)`` that minimize the penalized loss; 0 where the prior is 0."""

    def loss(weights: NDArray[np.float64]) -> float:
        scores = np.tensordot(weights, parts, 1)
        penalty = PRIOR * float(np.sum((weights - prior) ** 2)) / count
        return target.metrics(scores, values)["valid_loss"] + penalty

    bounds = [(0.0, None) if one > 0 else (0.0, 0.0) for one in prior]
    return minimize(loss, prior, bounds=bounds, method="L-BFGS-B").x
