"""Generate text token by token with a language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from representer.errors import ArgumentError, CheckpointError
from representer.estimators.language_predictors import LAST, Predictor


def generate(
    predictor: Predictor,
    prompt: Sequence[int],
    count: int,
    *,
    size: int,
    temperature: float = 1.0,
    top_p: float = 1.0,
    never: Sequence[int] = (),
    seed: int = 0,
) -> Iterator[int]:
    """Yield the continuation of a prompt; time and memory per token do not grow.

    Args:
        predictor: Predicts the next token.
        prompt: Tokens to continue, at least one.
        count: Number of tokens to yield.
        size: Number of tokens of the vocabulary.
        temperature: Softmax temperature; below 1 sharpens the distribution; 0 takes the most
            probable token.
        top_p: Sample from the smallest set of tokens with this total probability.
        never: Tokens that are not sampled, such as the one for unknown words.
        seed: Random seed.

    Raises:
        ArgumentError: If a value is out of its range.
    """
    if not prompt:
        raise ArgumentError("prompt", list(prompt), "at least one token")
    if count < 1:
        raise ArgumentError("tokens", count, "1 or more")
    if not 0 <= temperature < float("inf"):
        raise ArgumentError("temperature", temperature, "0 or more, and finite")
    if not 0 < top_p <= 1:
        raise ArgumentError("top_p", top_p, "above 0 and up to 1")
    if len(set(never)) >= size:
        raise ArgumentError("never", sorted(never), "not all tokens")
    return _sampled(predictor, prompt, count, temperature, top_p, list(never), seed)


def _sampled(
    predictor: Predictor,
    prompt: Sequence[int],
    count: int,
    temperature: float,
    top_p: float,
    never: list[int],
    seed: int,
) -> Iterator[int]:
    generator = torch.Generator().manual_seed(seed)
    logs, state = predictor.read(torch.tensor(prompt), rows=LAST)
    for _ in range(count):
        scores = logs[0]
        if not scores.isfinite().all():
            raise CheckpointError("The model's predictions are not finite. Train again.")
        scores[never] = -float("inf")
        token = _sample(scores, temperature, top_p, generator)
        yield token
        logs, state = predictor.read(torch.tensor([token]), state)


def _sample(scores: Tensor, temperature: float, top_p: float, generator: torch.Generator) -> int:
    if temperature == 0:
        return int(scores.argmax())
    chances = torch.softmax(scores / temperature, dim=0)
    if top_p < 1:
        ordered, places = chances.sort(descending=True, stable=True)
        before = ordered.cumsum(0) - ordered  # of all more probable tokens; 0 for the first
        chances = chances.index_fill(0, places[before >= top_p], 0.0)
    return int(torch.multinomial(chances, 1, generator=generator))
