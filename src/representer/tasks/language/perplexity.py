"""Negative log-likelihood and perplexity of a text under a language model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from representer.data.language import Level, fixed_segments, fold
from representer.models import LanguageModel
from representer.tasks.language.carried_state import detached

SEGMENT = 256  # steps at once; the figures do not depend on it


@torch.no_grad()
def negative_log_likelihood(
    model: LanguageModel,
    tokens: Tensor,
    rows: int = 1,
    check: Callable[[], None] = lambda: None,
) -> float:
    """Return the mean negative log-likelihood of a text in nats per token.

    The state is carried through the whole text; its first token alone is given.

    Args:
        model: In evaluation mode.
        tokens: ``(N,)``.
        rows: Parallel streams; with more than one, each starts anew and a few tokens are left out.
        check: Called after every segment.
    """
    device = next(model.parameters()).device
    inputs, targets = fold(tokens, min(rows, len(tokens) - 1))
    total, state = 0.0, None
    for start, length in fixed_segments(len(inputs), max(1, SEGMENT // inputs.shape[1])):
        span = slice(start, start + length)
        found = model(inputs[span].to(device), state)
        total += model.output.loss(found.features, targets[span].to(device)).item()
        state = detached(found.state)
        check()
    return total / targets.numel()


def figures(nats: float, tokens: int, level: Level) -> dict[str, Any]:
    """Return what is reported of a text.

    Args:
        nats: Mean negative log-likelihood per token.
        tokens: How many were predicted.
        level: Words have a perplexity, characters bits per character too.
    """
    found: dict[str, Any] = {"tokens": tokens, "loss": nats, "perplexity": math.exp(min(nats, 700))}
    return found | ({"bits_per_character": nats / math.log(2)} if level == "char" else {})
