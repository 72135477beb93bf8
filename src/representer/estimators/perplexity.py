"""Negative log-likelihood and perplexity of a text under a language model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from representer.data.language import Level, fixed_segments, fold
from representer.estimators.carried_state import detached
from representer.models import LanguageModel

SEGMENT = 256  # steps at a time; the metrics do not depend on it


@torch.no_grad()
def negative_log_likelihood(
    model: LanguageModel,
    tokens: Tensor,
    rows: int = 1,
    check: Callable[[], None] = lambda: None,
) -> float:
    """Return the mean negative log-likelihood of a text in nats per token.

    The state is carried through the whole text; its first token is given, not predicted.

    Args:
        model: In evaluation mode.
        tokens: ``(N,)``.
        rows: Parallel streams; with more than one, each starts from zeros and a few tokens are left
            out.
        check: Called after every segment.
    """
    device = next(model.parameters()).device
    inputs, targets = fold(tokens, min(rows, len(tokens) - 1))
    total, state = 0.0, None
    for start, length in fixed_segments(len(inputs), max(1, SEGMENT // inputs.shape[1])):
        span = slice(start, start + length)
        result = model(inputs[span].to(device), state)
        total += model.output.loss(result.features, targets[span].to(device)).item()
        state = detached(result.state)
        check()
    return total / targets.numel()


def figures(nats: float, tokens: int, level: Level) -> dict[str, Any]:
    """Return the metrics of a text."""
    metrics: dict[str, Any] = {
        "tokens": tokens,
        "loss": nats,
        "perplexity": math.exp(min(nats, 700)),
    }
    return metrics | ({"bits_per_character": nats / math.log(2)} if level == "char" else {})
