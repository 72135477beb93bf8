"""Predictors of the next token: a kernel, a network, or both together; their perplexity."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from representer.data.language import Level, fixed_segments, fold
from representer.estimators.carried_state import detached
from representer.estimators.pool import Pool
from representer.models import LanguageModel
from representer.training.captured_calls import replayed

SEGMENT = 256  # steps at a time; the metrics do not depend on it
ALL, LAST = slice(None), slice(-1, None)


class Predictor(Protocol):
    """The next tokens of a text that is read in parts."""

    def read(self, tokens: Tensor, state: Any = None, rows: slice = ALL) -> tuple[Tensor, Any]:
        """Return log p of every token after each token of a text, and the state after the text.

        Args:
            tokens: ``(T,)``.
            state: What an earlier call returned for the tokens before; None at the beginning.
            rows: The tokens after which predictions are returned.

        Returns:
            log p ``(R, V)`` in float64 on the CPU, and the state.
        """
        ...


@dataclass(frozen=True)
class NetworkPredictor:
    """A network, in evaluation mode.

    Attributes:
        network: The network.
        read_part: What calls it for several tokens; the network itself by default.
    """

    network: LanguageModel
    read_part: Callable[..., Any] | None = None

    @torch.no_grad()
    def read(self, tokens: Tensor, state: Any = None, rows: slice = ALL) -> tuple[Tensor, Any]:
        """Return log p of every token after each token of a text, see `Predictor`."""
        tokens = tokens.to(self.network.embedding.weight.device)
        if len(tokens) == 1:  # time does not grow with the text
            logs, state = self.network.step(tokens, state)
        else:
            result = (self.read_part or self.network)(tokens[:, None], state)
            logs = self.network.output.log_probabilities(result.features[rows, 0])
            state = result.state
        return logs.cpu().double(), detached(state)


@dataclass(frozen=True)
class JointPredictor:
    """The log-linear pool of a kernel and a network, normalized over the vocabulary.

    Attributes:
        kernel: May be None if its weight is 0.
        network: May be None if its weight is 0.
        pool: The weights.
    """

    kernel: Predictor | None
    network: Predictor | None
    pool: Pool

    def read(self, tokens: Tensor, state: Any = None, rows: slice = ALL) -> tuple[Tensor, Any]:
        """Return log p of every token after each token of a text, see `Predictor`."""
        states: list[Any] = [None, None] if state is None else list(state)
        scores: list[Tensor] = []
        weighted = (self.kernel, self.pool.kernel), (self.network, self.pool.network)
        for k, (part, weight) in enumerate(weighted):
            if part is not None and weight:
                logs, states[k] = part.read(tokens, states[k], rows)
                scores.append(weight * logs)
        return torch.stack(scores).sum(0).log_softmax(-1), states


def log_likelihoods(predictor: Predictor, tokens: Tensor) -> Tensor:
    """Return the log-probability of each token of a text but the first ``(T - 1,)``, in nats."""
    # One tensor for all: results of each part, kept between its large temporary tensors, would keep
    # the next part from reusing their memory, gigabytes in a long text.
    found = torch.empty(len(tokens) - 1, dtype=torch.float64)
    state, predictor = None, _with_graphs(predictor)
    for start, length in fixed_segments(len(tokens) - 1, SEGMENT):
        logs, state = predictor.read(tokens[start : start + length], state)
        following = tokens[start + 1 : start + length + 1, None]
        found[start : start + length] = logs.gather(1, following)[:, 0]
    return found


def _with_graphs(predictor: Any) -> Any:
    """Return a predictor that reads the parts of one text, on a GPU from CUDA graphs."""
    if isinstance(predictor, JointPredictor):
        return replace(predictor, network=_with_graphs(predictor.network))
    if isinstance(predictor, NetworkPredictor):
        return replace(predictor, read_part=replayed(predictor.network))
    return predictor


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
    total, state, forward = 0.0, None, replayed(model)
    for start, length in fixed_segments(len(inputs), max(1, SEGMENT // inputs.shape[1])):
        span = slice(start, start + length)
        result = forward(inputs[span].to(device), state)
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
