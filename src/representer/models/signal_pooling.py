"""From the outputs of a cell over a window of a signal to the features of its last layer.

Shapes: S steps, B batch, K units.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.models.signal_classifier_config import SignalClassifierConfig

_LEAST_POWER = 1e-4  # of standardized signals; below it, powers are alike


def pooled(outputs: Tensor, config: SignalClassifierConfig, scores: Tensor | None) -> Tensor:
    """Return the features ``(B, config.pooled_size)``.

    Args:
        outputs: ``(S, B, K)``.
        config: Its `pooling`, see `SignalClassifierConfig`.
        scores: Of the steps ``(S, B)``, for ``pooling="attention"``.
    """
    kind = config.pooling
    if kind == "last":
        return outputs[-1]
    if kind == "max":
        return outputs.amax(0)
    if kind == "flatten":
        return _largest(outputs, config.pool_steps).flatten(1)
    if kind == "attention":
        assert scores is not None
        return torch.einsum("sb,sbk->bk", scores.softmax(0), outputs)
    if kind == "mean":
        return outputs.mean(0)
    return with_power(outputs.mean(0), outputs.square().mean(0))


def with_power(mean: Tensor, square: Tensor) -> Tensor:
    """Return means and the logarithms of mean squares ``(B, 2K)`` of states, each ``(B, K)``."""
    return torch.cat([mean, (square + _LEAST_POWER).log().to(mean.dtype)], dim=1)


@torch.enable_grad()
def step_weights(
    outputs: Tensor, config: SignalClassifierConfig, scores: Tensor | None, row: Tensor
) -> Tensor:
    """Return the weights ``(S, K)`` of the outputs in a linear function of their features.

    Given which outputs are the largest and the weights of the steps, features but powers are linear
    functions of the outputs ``(S, 1, K)``; `row` has the weights of these features.
    """
    held = outputs.detach().requires_grad_()
    features = pooled(held, config, None if scores is None else scores.detach())
    (weights,) = torch.autograd.grad(features[0, : len(row)] @ row, held)
    return weights[:, 0]


def _largest(outputs: Tensor, steps: int) -> Tensor:
    """Return the largest output of each unit in parts of so many steps ``(B, K, parts)``."""
    return F.max_pool1d(outputs.permute(1, 2, 0), steps, ceil_mode=True)
