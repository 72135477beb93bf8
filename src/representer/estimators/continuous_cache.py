"""The continuous cache: more probability for words that followed similar states."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from representer.data.language import fixed_segments, fold
from representer.errors import ArgumentError
from representer.estimators.carried_state import detached
from representer.models import LanguageModel
from representer.requirements import check_integer

_SEGMENT = 64  # steps at a time; the metrics do not depend on it


class ContinuousCache:
    r"""The last features, each with the word that followed it.

    .. math::
        p(w \mid h_t) = (1 - \lambda)\, p_{\mathrm{model}}(w \mid h_t) + \lambda \sum_{i} a_{ti}
            \mathbb 1[w = x_{i+1}], \qquad
        a_{ti} = \operatorname{softmax}_i(\theta\, h_t^\top h_i)

    over the ``window`` steps i before t. The cache is empty at the first step, which is predicted
    by the model alone. Memory does not grow beyond the window.

    Args:
        theta: θ, the weight of the similarity; larger values favor the most similar states.
        share: λ.
        window: Number of stored steps.

    Raises:
        ArgumentError: If a number is out of its range.

    References:
        Grave et al., Improving Neural Language Models with a Continuous Cache, ICLR 2017, (3)-(5).
    """

    def __init__(self, theta: float = 1.0, share: float = 0.1, window: int = 500) -> None:
        if not math.isfinite(theta):
            raise ArgumentError("theta", theta, "a finite number")
        if not 0 <= share <= 1:
            raise ArgumentError("share", share, "a number from 0 to 1")
        self.theta, self.share, self.window = theta, share, check_integer("window", window)
        self._features: Tensor | None = None
        self._words: Tensor | None = None

    @property
    def remembered(self) -> int:
        """Return the number of stored steps."""
        return 0 if self._words is None else len(self._words)

    def read(self, features: Tensor, log_probabilities: Tensor, words: Tensor) -> Tensor:
        """Predict the next steps of a text, each from the steps before it, and store them.

        Args:
            features: h of each step ``(T, E)``.
            log_probabilities: The model's ``(T, V)``.
            words: The word that followed each step ``(T,)``; a step uses only those before it.

        Returns:
            The mixture's log-probabilities ``(T, V)``.
        """
        keys, values = features, words
        if self._features is not None and self._words is not None:
            keys = torch.cat((self._features, features))
            values = torch.cat((self._words, words))
        steps, known = len(features), len(keys) - len(features)
        # step t is entry known + t; it uses the entries of the window before it
        age = torch.arange(steps, device=keys.device)[:, None] + known
        age = age - torch.arange(len(keys), device=keys.device)
        is_seen = (age > 0) & (age <= self.window)
        scores = (self.theta * features @ keys.T).masked_fill(~is_seen, -math.inf)
        self._features = keys[-self.window :].clone()  # a copy, so that older features are freed
        self._words = values[-self.window :].clone()
        first = int(known == 0)  # the very first step has no predecessors
        similarity = scores[first:].softmax(dim=-1)
        recent = torch.zeros_like(log_probabilities[first:])
        recent.scatter_add_(1, values.expand(steps - first, -1), similarity)
        mixed = torch.logaddexp(
            log_probabilities[first:] + _log(1 - self.share), recent.log() + _log(self.share)
        )
        return torch.cat((log_probabilities[:first], mixed))


@torch.no_grad()
def cached_negative_log_likelihood(
    model: LanguageModel,
    tokens: Tensor,
    cache: ContinuousCache,
    check: Callable[[], None] = lambda: None,
) -> float:
    """Return the mean negative log-likelihood of a text in nats per token, with a cache.

    Args:
        model: In evaluation mode.
        tokens: ``(N,)``; the first one is given, not predicted.
        cache: Empty, or filled with the preceding text.
        check: Called after every segment.
    """
    device = next(model.parameters()).device
    inputs, targets = fold(tokens, 1)
    total, state = 0.0, None
    for start, length in fixed_segments(len(inputs), _SEGMENT):
        span = slice(start, start + length)
        result: Any = model(inputs[span].to(device), state)
        words, features = targets[span, 0].to(device), result.features[:, 0]
        logs = cache.read(features, model.output.log_probabilities(features), words)
        total -= logs.gather(1, words[:, None]).double().sum().item()
        state = detached(result.state)
        check()
    return total / len(targets)


def _log(share: float) -> float:
    return math.log(share) if share else -math.inf
