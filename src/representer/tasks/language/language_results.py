"""Results of a finished language run: metrics.json, details.json, closing lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.estimators import LanguageModel
from representer.estimators.language_report import (
    lines_of_tokens,
    part_figures,
    sample,
    surprisals,
    text_figures,
)
from representer.estimators.perplexity import figures
from representer.estimators.results import model_name, parameter_counts
from representer.kernels.kneser_ney import KneserNey
from representer.report.metrics import perplexity_difference
from representer.report.standing import PERPLEXITY, parts_sentence, standing
from representer.tasks.language.language_data import LanguageData
from representer.training.training_result import TrainingResult

ORDERS = {"word": (1, 3), "char": (1, 5)}


def metrics_of(
    config: Any, data: LanguageData, estimator: LanguageModel, training: TrainingResult | None
) -> dict[str, Any]:
    """Return metrics.json: the test metrics, how training went, and the best baseline."""
    test, level = data.tokens["test"], data.inputs.level
    parts, count = estimator.parts_, len(test) - 1
    model = model_name(parts, estimator._network_name)
    baselines = [] if config.baselines == "none" else baselines_of(data, estimator)
    differences = {row["name"]: row["difference"] for row in baselines}
    found = standing(model, differences, PERPLEXITY, f"{count} test tokens")
    return {
        "task": "language",
        "model": model,
        "level": level,
        "test": text_figures(estimator, test),
        "parts": part_figures(estimator, test),
        "valid": training and training.best,
        "epochs": training.epoch if training else 0,
        "steps": training.step if training else 0,
        "stopped_by": training and training.reason,
        "seconds": sum(part.seconds or 0.0 for part in parts.values()),
        "parameters": parameter_counts(estimator),
        "baselines": baselines,
        "standing": found,
        "verdict": found.get("sentence", ""),
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
    lines = lines_of_tokens(test)
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
    return {
        "title": f"Language model of {data.source}",
        "data": data.report,
        "excerpt": surprisals(estimator, data.tokens["test"]),
        "sample": sample(estimator, config.seed),
    }


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
