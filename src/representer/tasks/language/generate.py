"""Writing on: tokens drawn one by one from a language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from representer.errors import ArgumentError, CheckpointError
from representer.models import LanguageModel


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompt: Sequence[int],
    count: int,
    *,
    temperature: float = 1.0,
    top_p: float = 1.0,
    never: Sequence[int] = (),
    seed: int = 0,
) -> Iterator[int]:
    """Yield tokens that go on from a prompt, in time and memory per token that do not grow.

    Args:
        model: In evaluation mode.
        prompt: Tokens to go on from, at least one.
        count: How many to yield.
        temperature: Log-probabilities are divided by it; 0 takes the most probable token.
        top_p: Draw from the most probable tokens alone that together have this probability.
        never: Tokens that are not drawn, such as the one for unknown words.
        seed: The same seed draws the same tokens.

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
    if len(set(never)) >= model.config.vocabulary_size:
        raise ArgumentError("never", sorted(never), "not every token that there is")
    return _drawn(model, prompt, count, temperature, top_p, list(never), seed)


@torch.no_grad()
def _drawn(
    model: LanguageModel,
    prompt: Sequence[int],
    count: int,
    temperature: float,
    top_p: float,
    never: list[int],
    seed: int,
) -> Iterator[int]:
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    state, logs = None, torch.zeros(0)
    for token in prompt:
        logs, state = model.step(torch.tensor([token], device=device), state)
    for _ in range(count):
        scores = logs[0].double().cpu()
        if not scores.isfinite().all():
            raise CheckpointError("The model's predictions are not finite. Train again.")
        scores[never] = -float("inf")
        token = _draw(scores, temperature, top_p, generator)
        yield token
        logs, state = model.step(torch.tensor([token], device=device), state)


def _draw(scores: Tensor, temperature: float, top_p: float, generator: torch.Generator) -> int:
    if temperature == 0:
        return int(scores.argmax())
    chances = torch.softmax(scores / temperature, dim=0)
    if top_p < 1:
        ordered, places = chances.sort(descending=True, stable=True)
        before = (
            ordered.cumsum(0) - ordered
        )  # of the more probable ones: the first has 0, and stays
        chances = chances.index_fill(0, places[before >= top_p], 0.0)
    return int(torch.multinomial(chances, 1, generator=generator))
