"""Using a trained language model: ``evaluate`` and ``generate``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from representer.data.language import encode_lines, text_lines
from representer.errors import DataError
from representer.estimators.generate import generate
from representer.estimators.language_inputs import LanguageInputs
from representer.estimators.perplexity import figures, negative_log_likelihood
from representer.printable import say
from representer.storage.run_files import require_finite
from representer.tasks.language.adaptation import Adaptation
from representer.tasks.language.continuous_cache import (
    ContinuousCache,
    cached_negative_log_likelihood,
)
from representer.tasks.language.dynamic_evaluation import dynamic_evaluation
from representer.tasks.language.language_run import TrainedLanguage, load_run


def evaluate(
    run: str | Path, data: str | Path, adaptation: Adaptation | None = None
) -> dict[str, Any]:
    """Test a trained language model on another text.

    Args:
        run: The run folder.
        data: The text file.
        adaptation: Options of adapting to the text; none by default.

    Returns:
        Tokens, loss in nats per token, perplexity, bits per character where tokens are characters,
        the number of unknown tokens, and the metrics with a ``cache`` and with ``dynamic``
        evaluation, if they are chosen.

    Raises:
        DataError: If the text cannot be used.
    """
    trained = load_run(run)
    lines = text_lines(data, trained.encoding)
    tokens = encode_lines(lines, trained.vocabulary, trained.level)
    if len(tokens) < 2:
        fix = "Give a text with a word in it."
        raise DataError("has no token to predict", file=Path(data), fix=fix)
    nats = negative_log_likelihood(trained.model, tokens)
    require_finite(run, nats)
    unknown = int((tokens == trained.vocabulary.UNKNOWN).sum())
    metrics = figures(nats, len(tokens) - 1, trained.level)
    metrics |= _adapted(trained, tokens, adaptation or Adaptation())
    return {"run": str(run), "data": str(data), "unknown": unknown, **metrics}


def _adapted(trained: TrainedLanguage, tokens: Tensor, chosen: Adaptation) -> dict[str, Any]:
    """Return the metrics of a text that the model adapts to."""
    losses: dict[str, float] = {}
    if chosen.cache_share:
        cache = ContinuousCache(chosen.cache_theta, chosen.cache_share, chosen.cache_window)
        losses["cache"] = cached_negative_log_likelihood(trained.model, tokens, cache)
    if chosen.dynamic_lr:
        losses["dynamic"] = dynamic_evaluation(
            trained.model, tokens, lr=chosen.dynamic_lr, decay=chosen.dynamic_decay
        )
    return {name: figures(nats, len(tokens) - 1, trained.level) for name, nats in losses.items()}


@dataclass(frozen=True)
class Sampling:
    """Options of sampling; see ``generate.generate``."""

    count: int = 100
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0


def write_on(run: str | Path, prompt: str, sampling: Sampling) -> Iterator[str]:
    """Return the continuation of a prompt, piece by piece as it is sampled.

    Unknown words of the prompt are read as the mark for unknown words, and named on stderr. The
    continuation has no such mark.

    Args:
        run: The run folder.
        prompt: Text; the continuation starts a line if it is empty or ends with a line break.
        sampling: Number of tokens, and how they are sampled.
    """
    trained = load_run(run)
    inputs = LanguageInputs(trained.vocabulary, trained.level)
    if unknown := inputs.unknown(prompt):
        shown = ", ".join(map(repr, unknown))
        say(f"the model does not know {shown}; read as {trained.vocabulary.MARKS[1]}")
    tokens = inputs.encode_prompt(prompt)
    sampled = generate(
        trained.model,
        tokens,
        sampling.count,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        never=[trained.vocabulary.UNKNOWN],
        seed=sampling.seed,
    )
    return inputs.pieces(sampled, starts_line=tokens[-1] == trained.vocabulary.END)
