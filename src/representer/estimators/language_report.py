"""The report of a language model; the page of a run of ``fit language`` has the same template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from representer.data.language import LanguageVocabulary
from representer.errors import KindError
from representer.estimators.explanation import NETWORK, explanations_of
from representer.estimators.fitting import seed_of
from representer.estimators.language_training import LanguageInputs, figures, generate, lines_of
from representer.estimators.results import about
from representer.report.metrics import mean_over_lines, perplexity_interval
from representer.report.page import Predictions, Results
from representer.training.config import best_index

if TYPE_CHECKING:
    from representer.estimators.language import LanguageModel

EXCERPT = 150  # tokens of the excerpt of the test text, and of the sample
JUDGED, AT_ONCE = 2000, 250  # tokens whose surprise is compared with the expected one
EXAMPLES, WORDS, SEARCHED = 4, 8, 400  # explained beginnings of test lines, and their tokens


def results_of(estimator: LanguageModel, X: Any, y: Any, k: int, examples: int) -> Results:
    """Return what the report of a language model shows; see `Estimator.report`."""
    inputs = estimator.inputs_
    metrics, details = about(estimator, f"language model of {inputs.level}s")
    counts = {name: {"tokens": count} for name, count in estimator.examples_.items()}
    details["data"] = {"vocabulary": len(inputs.vocabulary), "parts": counts}
    details |= {"excerpt": [], "sample": sample(estimator, seed_of(estimator.random_state))}
    best = best_index([row.get("valid_loss") for row in estimator.history_], "min")
    valid = None if best is None else estimator.history_[best]
    metrics |= {"task": "language", "level": inputs.level, "valid": valid}
    explained: list[dict[str, Any]] = []
    if X is not None:
        lines = lines_of(X, estimator.encoding)
        tokens = estimator.encode_text(lines)
        metrics |= figures_of(estimator, tokens, estimator.log_likelihoods(tokens))
        counts["test"] = token_counts(inputs, tokens)
        details["excerpt"] = surprisals(estimator, tokens)
        first = [line.rstrip("\r\n") for line in lines[:examples]]
        explained = _explained(estimator, first, "after line", k)
    return Results(metrics, details, estimator.history_, explained)


def figures_of(
    estimator: LanguageModel, tokens: Tensor, logs: NDArray[np.float64]
) -> dict[str, dict[str, Any]]:
    """Return the metrics of a text ``(N,)``, and share, seconds and metrics of each half.

    ``logs`` are the log-probabilities of the tokens, see `LanguageModel.log_likelihoods`.
    """
    level, count = estimator.inputs_.level, len(logs)
    # The network's own mean is of float32, as in validation.
    is_network = estimator.answer == NETWORK
    loss = estimator.log_likelihood(tokens) if is_network else float(logs.mean())
    interval = perplexity_interval(logs, lines_of_tokens(tokens))
    halves = {
        name: half._asdict() | figures(-estimator.part(name).log_likelihood(tokens), count, level)
        for name, half in estimator.parts_.items()
    }
    test = figures(-loss, count, level) | {"perplexity_interval": list(interval)}
    return {"test": test | surprise(estimator, tokens), "parts": halves}


def token_counts(inputs: LanguageInputs, tokens: Tensor) -> dict[str, int]:
    """Return the number of tokens, of lines and of unknown tokens of a text."""
    vocabulary = inputs.vocabulary
    marks = {"lines": vocabulary.END, "unknown": vocabulary.UNKNOWN}
    return {
        "tokens": len(tokens),
        **{name: int((tokens == mark).sum()) for name, mark in marks.items()},
    }


def unknown_note(inputs: LanguageInputs, tokens: Tensor) -> str:
    """Return a note if words of a text are unknown: its perplexity then tells little."""
    counts = token_counts(inputs, tokens)
    words = counts["tokens"] - counts["lines"]
    if inputs.level != "word" or not counts["unknown"]:
        return ""
    if 3 * counts["unknown"] <= words:
        return f"{counts['unknown']:,} of the {words:,} words to test are unknown, read as <unk>"
    return (
        f"{counts['unknown'] / words:.0%} of the words to test are unknown, so perplexity tells "
        "little; --level char reads characters"
    )


def lines_of_tokens(tokens: Tensor) -> NDArray[np.int64]:
    """Return the line of each token of a text but the first ``(N - 1,)``; equal lines are one."""
    breaks = np.flatnonzero(tokens[1:-1].numpy() == LanguageVocabulary.END) + 1
    lines, numbers = np.split(tokens[1:].numpy(), breaks), dict[bytes, int]()
    numbered = [numbers.setdefault(line.tobytes(), len(numbers)) for line in lines]
    return np.repeat(numbered, [len(line) for line in lines])


def sample(estimator: LanguageModel, seed: int) -> list[str]:
    """Return tokens that the model generates."""
    vocabulary = estimator.inputs_.vocabulary
    sampled = generate(
        estimator.predictor_, [vocabulary.END], EXCERPT, size=len(vocabulary), top_p=0.9,
        never=[vocabulary.UNKNOWN], seed=seed,
    )  # fmt: skip
    return [vocabulary.words[token] for token in sampled]


def surprisals(estimator: LanguageModel, text: Tensor) -> list[dict[str, Any]]:
    """Return the first tokens of a text, each with its surprisal in bits and the likeliest one."""
    tokens = text[: EXCERPT + 1]
    logs = estimator.predictor_.read(tokens[:-1])[0]
    bits = -logs.gather(1, tokens[1:, None])[:, 0] / math.log(2)
    best, expected = logs.max(1)
    decode = estimator.inputs_.vocabulary.decode
    rows = zip(
        decode(tokens[1:].tolist()), bits.tolist(), decode(expected.tolist()), best.exp().tolist(),
        strict=True,
    )  # fmt: skip
    return [
        {"token": token, "bits": round(bits, 2), "expected": guess, "chance": round(chance, 4)}
        for token, bits, guess, chance in rows
    ]


def surprise(estimator: LanguageModel, text: Tensor) -> dict[str, Any]:
    """Return whether a model is as surprised by the first tokens of a text as it expects to be.

    These are ``expected_bits``, the mean entropy of its predictions; ``surprise``, by how much the
    mean surprisal exceeds it, in bits per token; and ``surprise_interval`` (95 %, over lines).
    """
    tokens, state, excess, entropies = text[: JUDGED + 1], None, [], []
    for start in range(0, len(tokens) - 1, AT_ONCE):
        read = tokens[start : min(start + AT_ONCE, len(tokens) - 1)]
        logs, state = estimator.predictor_.read(read, state)
        wanted = tokens[start + 1 : start + 1 + len(read), None]
        entropies.append(-(logs.exp() * logs).nan_to_num(0.0).sum(1) / math.log(2))
        excess.append(-logs.gather(1, wanted)[:, 0] / math.log(2) - entropies[-1])
    values = torch.cat(excess).numpy()
    mean, low, high = mean_over_lines(values, lines_of_tokens(tokens))
    expected = float(torch.cat(entropies).mean())
    return {"expected_bits": expected, "surprise": mean, "surprise_interval": [low, high]}


def explained_lines(estimator: LanguageModel, text: Tensor, top: int) -> list[dict[str, Any]]:
    """Return the explanations of the token after the beginnings of some lines of a text."""
    vocabulary = estimator.inputs_.vocabulary
    ends = [-1, *(text == vocabulary.END).nonzero()[:, 0].tolist()]
    lines = [text[a + 1 : b].tolist()[: WORDS + 1] for a, b in pairwise(ends) if b - a > WORDS + 1]
    readable = [line for line in lines[:SEARCHED] if vocabulary.UNKNOWN not in line][:EXAMPLES]
    between = "" if estimator.inputs_.level == "char" else " "
    beginnings = [between.join(vocabulary.decode(line[:-1])) for line in readable]
    truths = vocabulary.decode([line[-1] for line in readable])
    return _explained(estimator, beginnings, "token after", top, truths)


def _explained(
    estimator: LanguageModel, texts: Sequence[str], noun: str, top: int, truths: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the explanations of the tokens after some texts; none if the cell has none."""
    if not texts:
        return []
    numbers, chances = estimator.most_probable(texts)
    best, rows = [Predictions(numbers, chances=chances)], range(1, len(texts) + 1)
    try:
        return explanations_of(estimator, texts, best, rows, noun, top, (), truths)
    except KindError:
        return []
