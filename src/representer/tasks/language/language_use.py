"""Use of a trained language model: ``evaluate``, ``predict``, ``explain`` and ``generate``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from representer.data.language import text_lines
from representer.errors import ArgumentError, DataError
from representer.estimators import LanguageModel
from representer.estimators.perplexity import figures
from representer.printable import say
from representer.storage.run_files import require_finite
from representer.tasks.estimator_explain import entry_of, write_explanations
from representer.tasks.language.adaptation import Adaptation
from representer.tasks.language.continuous_cache import (
    ContinuousCache,
    cached_negative_log_likelihood,
)
from representer.tasks.language.dynamic_evaluation import dynamic_evaluation
from representer.tasks.table_file import as_csv, check_output, write_table

AT_A_TIME = 64  # lines whose predictions are in memory together


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
        the number of unknown tokens, and the metrics of the network with a ``cache`` and with
        ``dynamic`` evaluation, if they are chosen.

    Raises:
        DataError: If the text cannot be used.
    """
    estimator = LanguageModel.load(run)
    inputs = estimator.inputs_
    tokens = inputs.encode(text_lines(data, estimator.encoding))
    if len(tokens) < 2:
        fix = "Give a text with a word in it."
        raise DataError("has no token to predict", file=Path(data), fix=fix)
    losses = _losses(estimator, tokens, adaptation or Adaptation())
    require_finite(run, losses[""])
    unknown = int((tokens == inputs.vocabulary.UNKNOWN).sum())
    metrics = {name: figures(nats, len(tokens) - 1, inputs.level) for name, nats in losses.items()}
    return {"run": str(run), "data": str(data), "unknown": unknown, **metrics.pop(""), **metrics}


def _losses(estimator: LanguageModel, tokens: Tensor, chosen: Adaptation) -> dict[str, float]:
    """Return the loss of a text by the name of the adaptation; ``""`` is without."""
    losses, network = {"": -estimator.log_likelihood(tokens)}, estimator.network_
    if network is None:
        for name in ("cache_share", "dynamic_lr"):
            if value := getattr(chosen, name):
                raise ArgumentError(name, value, "0, since the run has no network to adapt")
        return losses
    if chosen.cache_share:
        cache = ContinuousCache(chosen.cache_theta, chosen.cache_share, chosen.cache_window)
        losses["cache"] = cached_negative_log_likelihood(network, tokens, cache)
    if chosen.dynamic_lr:
        losses["dynamic"] = dynamic_evaluation(
            network, tokens, lr=chosen.dynamic_lr, decay=chosen.dynamic_decay
        )
    return losses


def predict(run: str | Path, data: str | Path, output: str | Path | None) -> None:
    """Write the most probable next token after each line of a text, and its probability.

    Args:
        run: The run folder.
        data: The text file.
        output: CSV file, written atomically; stdout if None.

    Raises:
        DataError: The text or the path of the output cannot be used.
        StorageError: The output cannot be written.
    """
    if output is not None:
        check_output(Path(output), Path(data))
    estimator = LanguageModel.load(run)
    lines = [line.rstrip("\r\n") for line in text_lines(data, estimator.encoding)]
    tokens = estimator.inputs_.encode(lines)
    if unknown := int((tokens == estimator.inputs_.vocabulary.UNKNOWN).sum()):
        say(f"{unknown} unknown tokens are read as <unk>")
    rows = [
        [str(number), token, f"{chance:.6f}"]
        for number, (token, chance) in enumerate(_next_tokens(run, estimator, lines), 1)
    ]
    write_table(output, as_csv([["line", "prediction", "probability"], *rows]))


def explain(run: str | Path, data: str | Path, *, limit: int, top: int) -> list[dict[str, Any]]:
    """Explain the most probable next token after each of the first lines of a text.

    Writes explanations.json into the run folder and updates its report.

    Args:
        run: The run folder.
        data: The text file.
        limit: Number of lines.
        top: Number of contributions to list for each.

    Raises:
        DataError: The text cannot be used.
        KindError: The model has no exact contributions, with the reason.
    """
    estimator = LanguageModel.load(run)
    first = islice(text_lines(data, estimator.encoding), limit)
    lines = [line.rstrip("\r\n") for line in first]
    explanations = estimator.explain(lines, top)
    pairs = zip(_next_tokens(run, estimator, lines), explanations, strict=True)
    entries = [
        entry_of("after line", row, f"{token} ({100 * chance:.0f} %)", explanation)
        for row, ((token, chance), explanation) in enumerate(pairs, 1)
    ]
    write_explanations(run, entries)
    return entries


def _next_tokens(
    run: str | Path, estimator: LanguageModel, lines: list[str]
) -> Iterator[tuple[str, float]]:
    """Yield the most probable token after each line, and its probability."""
    estimator.set_params(verbose=0)  # unknown tokens have been named
    for start in range(0, len(lines), AT_A_TIME):
        chances = estimator.predict_proba(lines[start : start + AT_A_TIME])
        require_finite(run, chances)
        best = chances.argmax(axis=1)
        tokens = np.asarray(estimator.tokens_)[best].tolist()
        yield from zip(tokens, chances.max(axis=1).tolist(), strict=True)


def generate(
    run: str | Path, prompt: str, tokens: int, *, temperature: float, top_p: float, seed: int
) -> Iterator[str]:
    """Return the continuation of a prompt, piece by piece as it is sampled.

    Args:
        run: The run folder.
        prompt: Text; the continuation starts a line if it is empty or ends with a line break.
        tokens: Number of tokens.
        temperature: See `LanguageModel.generate`, as for the others.
        top_p: The probability of the tokens to sample from.
        seed: Random seed.
    """
    if tokens < 1:
        raise ArgumentError("tokens", tokens, "a positive integer")
    model = LanguageModel.load(run)
    return model.stream(prompt, tokens, temperature, top_p=top_p, random_state=seed)
