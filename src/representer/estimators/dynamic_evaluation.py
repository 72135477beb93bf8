"""Dynamic evaluation: train a model on the part of the text that it has predicted already."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from representer.data.language import fixed_segments, fold
from representer.errors import ArgumentError, TrainingError
from representer.estimators.carried_state import detached
from representer.models import LanguageModel


def dynamic_evaluation(
    model: LanguageModel,
    tokens: Tensor,
    *,
    lr: float,
    decay: float = 0.0,
    segment: int = 5,
    mean_squares: Sequence[Tensor] | None = None,
    epsilon: float = 1e-3,
    check: Callable[[], None] = lambda: None,
) -> float:
    r"""Return the mean negative log-likelihood of a text, training on it segment by segment.

    Each segment is predicted first, and then a step is taken along the gradient of its mean loss,

    .. math::
        \theta \leftarrow \theta - \eta\, g + \lambda\,(\theta_0 - \theta)

    or, where the mean squares s of the gradients in training are given, with :math:`r = \sqrt{s}`
    and :math:`\bar r` its mean over all weights,

    .. math::
        \theta \leftarrow \theta - \eta\, \frac{g}{r + \epsilon}
            + \min\left(\lambda \frac{r}{\bar r}, 1\right)(\theta_0 - \theta)

    Afterwards the model has its trained weights :math:`\theta_0` again, even after an error.

    Args:
        model: In evaluation mode.
        tokens: ``(N,)``; the first one is given, not predicted.
        lr: η.
        decay: λ, the rate at which weights return to the trained ones.
        segment: Steps between two updates.
        mean_squares: s of each parameter, see `mean_squared_gradients`.
        epsilon: ε.
        check: Called after every segment.

    Returns:
        In nats per token.

    Raises:
        ArgumentError: If a number is out of its range.
        TrainingError: If the loss was not a finite number: the weights diverged.

    References:
        Krause et al., Dynamic Evaluation of Neural Sequence Models, ICML 2018, sections 4 and 5.
    """
    if not 0 <= lr < math.inf:
        raise ArgumentError("lr", lr, "a finite number ≥ 0")
    if not 0 <= decay <= 1:
        raise ArgumentError("decay", decay, "a number from 0 to 1")
    if not 0 < epsilon < math.inf:
        raise ArgumentError("epsilon", epsilon, "a finite number above 0")
    weights = _trained(model)
    rates, pulls = [lr] * len(weights), [decay] * len(weights)
    if mean_squares is not None:
        roots = [s.sqrt() for s in mean_squares]
        mean = sum(r.sum().item() for r in roots) / sum(r.numel() for r in roots)
        rates = [lr / (r + epsilon) for r in roots]
        pulls = [(decay * r / mean).clamp(max=1) if mean else decay for r in roots]
    total = count = 0.0
    with _restored(weights) as trained:
        for loss, tokens_in, gradients in _segments(model, tokens, 1, segment, weights):
            total, count = total + loss, count + tokens_in
            if not math.isfinite(loss):
                done = f"after {int(count):,} tokens of dynamic evaluation at lr {lr:g}"
                raise TrainingError(f"The loss is {loss} {done}. Lower the rate.")
            with torch.no_grad():
                for weight, first, gradient, rate, pull in zip(
                    weights, trained, gradients, rates, pulls, strict=True
                ):
                    weight.lerp_(first, pull).sub_(gradient * rate)
            check()
    return total / count


def mean_squared_gradients(
    model: LanguageModel,
    tokens: Tensor,
    *,
    rows: int = 20,
    segment: int = 5,
    check: Callable[[], None] = lambda: None,
) -> list[Tensor]:
    """Return the mean squares of the gradients of segments, for `dynamic_evaluation`.

    Returns:
        A tensor of each parameter that is trained, in the order of ``model.parameters()``.
    """
    weights = _trained(model)
    sums, segments = [torch.zeros_like(weight) for weight in weights], 0
    for _, _, gradients in _segments(model, tokens, rows, segment, weights):
        segments += 1
        for total, gradient in zip(sums, gradients, strict=True):
            total.addcmul_(gradient, gradient)
        check()
    return [total / segments for total in sums]


def _trained(model: LanguageModel) -> list[Tensor]:
    return [weight for weight in model.parameters() if weight.requires_grad]


def _segments(
    model: LanguageModel, tokens: Tensor, rows: int, segment: int, weights: Sequence[Tensor]
) -> Iterator[tuple[float, int, Sequence[Tensor]]]:
    """Yield the loss of each segment, its tokens, and the gradients of its mean loss."""
    device = next(model.parameters()).device
    inputs, targets = fold(tokens, rows)
    state: Any = None
    for start, length in fixed_segments(len(inputs), segment):
        span = slice(start, start + length)
        wanted = targets[span].to(device)
        # cuDNN's own layers have no gradients in evaluation mode
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            result = model(inputs[span].to(device), state)
            loss = model.output.loss(result.features, wanted)
            gradients = torch.autograd.grad(
                loss / wanted.numel(), weights, allow_unused=True, materialize_grads=True
            )
        state = detached(result.state)
        yield loss.item(), wanted.numel(), gradients


@contextmanager
def _restored(weights: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Give copies of weights to the block, and set the weights to them after it."""
    kept = [weight.detach().clone() for weight in weights]
    try:
        yield kept
    finally:
        with torch.no_grad():
            for weight, value in zip(weights, kept, strict=True):
                weight.copy_(value)
