"""Results of a finished language run: metrics.json, details.json, closing lines."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from representer.estimators import LanguageModel
from representer.estimators.generate import generate
from representer.estimators.perplexity import figures
from representer.kernels.kneser_ney import KneserNey
from representer.report.metrics import perplexity_difference
from representer.report.standing import PERPLEXITY, parts_sentence, standing
from representer.tasks.estimator_results import model_name
from representer.tasks.language.language_data import LanguageData
from representer.training.training_result import TrainingResult

EXCERPT = 150  # tokens of the excerpt of the test text, and of the sample
ORDERS = {"word": (1, 3), "char": (1, 5)}


def metrics_of(
    config: Any, data: LanguageData, estimator: LanguageModel, training: TrainingResult | None
) -> dict[str, Any]:
    """Return metrics.json: the test metrics, how training went, and the best baseline."""
    test, level = data.tokens["test"], data.inputs.level
    parts, count = estimator.parts_, len(test) - 1
    model = model_name(parts, config.cell)
    baselines = [] if config.baselines == "none" else baselines_of(data, estimator)
    differences = {row["name"]: row["difference"] for row in baselines}
    found = standing(model, differences, PERPLEXITY, f"{count} test tokens")
    return {
        "task": "language",
        "model": model,
        "level": level,
        "test": figures(-estimator.log_likelihood(test), count, level),
        "parts": _parts(estimator, test),
        "valid": training and training.best,
        "epochs": training.epoch if training else 0,
        "steps": training.step if training else 0,
        "stopped_by": training and training.reason,
        "seconds": sum(part.seconds or 0.0 for part in parts.values()),
        "parameters": estimator._count_parameters({}),
        "baselines": baselines,
        "standing": found,
        "verdict": found.get("sentence", ""),
    }


def _parts(estimator: LanguageModel, test: Tensor) -> dict[str, dict[str, Any]]:
    """Return share, seconds and own test metrics of kernel and network."""
    level, count = estimator.inputs_.level, len(test) - 1
    return {
        name: part._asdict() | figures(-estimator.part(name).log_likelihood(test), count, level)
        for name, part in estimator.parts_.items()
    }


def counted(data: LanguageData) -> Iterator[tuple[str, NDArray[np.float64], float]]:
    """Yield name, log-probability of each test token, and seconds of n-gram counts."""
    train, test = (data.tokens[part].numpy() for part in ("train", "test"))
    for order in ORDERS[data.inputs.level]:
        started = time.perf_counter()
        counts = KneserNey(order).fit(train, len(data.inputs.vocabulary))
        scores = np.log(counts.probabilities(test)[1:])
        name = f"{order}-gram, Kneser-Ney" if order > 1 else "1-gram"
        yield name, scores, time.perf_counter() - started


def baselines_of(data: LanguageData, estimator: LanguageModel) -> list[dict[str, Any]]:
    """Return the metrics of n-gram counts on the test text, and how the model differs from them."""
    test, level = data.tokens["test"], data.inputs.level
    own = estimator.log_likelihoods(test)
    lines = np.cumsum(test.numpy() == data.inputs.vocabulary.END)[:-1]
    return [
        {
            "name": name,
            "seconds": seconds,
            "difference": perplexity_difference(own, scores, lines),
            **figures(-float(scores.mean()), len(scores), level),
        }
        for name, scores, seconds in counted(data)
    ]


def details_of(config: Any, data: LanguageData, estimator: LanguageModel) -> dict[str, Any]:
    """Return details.json without what repeats the run: data, an excerpt, and a sample."""
    vocabulary = data.inputs.vocabulary
    sampled = generate(
        estimator.predictor_, [vocabulary.END], EXCERPT, size=len(vocabulary), top_p=0.9,
        never=[vocabulary.UNKNOWN], seed=config.seed,
    )  # fmt: skip
    return {
        "title": f"Language model of {data.source}",
        "data": data.report,
        "excerpt": surprisals(data, estimator),
        "sample": [vocabulary.words[token] for token in sampled],
    }


def surprisals(data: LanguageData, estimator: LanguageModel) -> list[dict[str, Any]]:
    """Return the first tokens of the test text, each with its surprisal in bits."""
    tokens = data.tokens["test"][: EXCERPT + 1]
    logs = estimator.predictor_.read(tokens[:-1])[0]
    bits = -logs.gather(1, tokens[1:, None])[:, 0] / math.log(2)
    words = data.inputs.vocabulary.decode(tokens[1:].tolist())
    return [{"token": w, "bits": round(b, 2)} for w, b in zip(words, bits.tolist(), strict=True)]


def closing(metrics: dict[str, Any]) -> list[str]:
    """Return the closing lines for the terminal: perplexities, parts, and the best baseline."""
    best, parts = metrics["valid"] or {}, metrics["parts"]
    rows = [
        (metrics["model"], metrics["test"]),
        *((f"  {name} alone", own) for name, own in parts.items() if len(parts) > 1),
        *((baseline["name"], baseline) for baseline in metrics["baselines"]),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{metrics['test']['tokens']:,} tokens of the test text"]
    for name, row in rows:
        bits = row.get("bits_per_character")
        shown = "" if bits is None else f"   {bits:.3f} bits per character"
        lines.append(f"{name:<{width}}  perplexity {row['perplexity']:9.2f}{shown}")
    if best.get("valid_perplexity"):
        network = 2 if len(parts) > 1 else 0  # the row of the network alone
        lines[1 + network] += (
            f"   (validation {best['valid_perplexity']:.2f}, epoch {best['epoch']})"
        )
    return ["\n".join(lines), parts_sentence(parts), metrics["verdict"]]
