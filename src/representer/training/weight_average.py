"""The average of the weights of the last steps, without a rate or a length to choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor

EVERY = 10  # steps between updates, so that an embedding of many words costs little
_ETA = 8  # an average of the last ninth of the updates


@contextmanager
def exchanged(weights: Sequence[Tensor], values: Sequence[Tensor]) -> Iterator[None]:
    """Give weights other values within the block, and restore them exactly after it."""
    kept = [weight.detach().clone() for weight in weights]
    _set(weights, values)
    try:
        yield
    finally:
        _set(weights, kept)


@torch.no_grad()
def _set(weights: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for weight, value in zip(weights, values, strict=True):
        weight.copy_(value)


class WeightAverage:
    r"""The polynomial-decay average of weights.

    .. math:: \bar w_n = \Bigl(1 - \frac{\eta + 1}{n + \eta}\Bigr) \bar w_{n-1}
        + \frac{\eta + 1}{n + \eta} w_n, \qquad \eta = 8

    The first weights are forgotten: the average is mostly over the last n / (η + 1) updates, in
    short and in long runs. One update takes place every ten steps.

    Args:
        parameters: The weights.

    References:
        Shamir and Zhang, Stochastic Gradient Descent for Non-smooth Optimization: Convergence
        Results and Optimal Averaging Schemes, ICML 2013, section 4.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = list(parameters)
        self._means = [torch.zeros_like(weight) for weight in self._parameters]
        self._count = 0

    @torch.no_grad()
    def update(self) -> None:
        """Add the present weights."""
        rate, self._count = self._rate, self._count + 1
        for mean, weight in zip(self._means, self._parameters, strict=True):
            mean.lerp_(weight, rate)

    def averaged(self) -> AbstractContextManager[None]:
        """Give the weights their average within a block, as if updated now; restore them after."""
        with torch.no_grad():
            pairs = zip(self._means, self._parameters, strict=True)
            values = [torch.lerp(mean, weight, self._rate) for mean, weight in pairs]
        return exchanged(self._parameters, values)

    def state_dict(self) -> dict[str, Any]:
        """Return the averages and the number of updates."""
        return {"means": [mean.clone() for mean in self._means], "count": self._count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        self._count = state["count"]
        for mean, value in zip(self._means, state["means"], strict=True):
            mean.copy_(value)

    @property
    def _rate(self) -> float:
        """The weight of the next update, 1 for the first."""
        return (_ETA + 1) / (self._count + 1 + _ETA)
