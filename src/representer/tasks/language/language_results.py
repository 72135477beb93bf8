"""Results of a finished language run: metrics.json, details.json, closing lines."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from torch import Tensor

from representer.estimators import LanguageModel
from representer.estimators.generate import generate
from representer.estimators.perplexity import figures
from representer.kernels.kneser_ney import KneserNey
from representer.tasks.estimator_results import model_name
from representer.tasks.language.language_config import defaults
from representer.tasks.language.language_data import LanguageData
from representer.tasks.options import command_of
from representer.training.fingerprint import fingerprint
from representer.training.training_result import TrainingResult

EXCERPT = 150  # tokens of the excerpt of the test text, and of the sample
ORDERS = {"word": (1, 3), "char": (1, 5)}


def metrics_of(
    config: Any, data: LanguageData, estimator: LanguageModel, training: TrainingResult | None
) -> dict[str, Any]:
    """Return metrics.json: the test metrics, and how training went."""
    test, level = data.tokens["test"], data.inputs.level
    parts = estimator.parts_
    return {
        "task": "language",
        "model": model_name(parts, config.cell),
        "level": level,
        "test": figures(-estimator.log_likelihood(test), len(test) - 1, level),
        "parts": _parts(estimator, test),
        "valid": training and training.best,
        "epochs": training.epoch if training else 0,
        "steps": training.step if training else 0,
        "stopped_by": training and training.reason,
        "seconds": sum(part.seconds or 0.0 for part in parts.values()),
        "parameters": estimator._count_parameters({}),
        "baselines": baselines_of(data) if config.baselines != "none" else [],
    }


def _parts(estimator: LanguageModel, test: Tensor) -> dict[str, dict[str, Any]]:
    """Return share, seconds and own test metrics of kernel and network."""
    level, count = estimator.inputs_.level, len(test) - 1
    return {
        name: part._asdict() | figures(-estimator.part(name).log_likelihood(test), count, level)
        for name, part in estimator.parts_.items()
    }


def baselines_of(data: LanguageData) -> list[dict[str, Any]]:
    """Return the metrics of n-gram counts on the same test text."""
    train, test = (data.tokens[part].numpy() for part in ("train", "test"))
    baselines, level = [], data.inputs.level
    for order in ORDERS[level]:
        started = time.perf_counter()
        counts = KneserNey(order).fit(train, len(data.inputs.vocabulary))
        nats = -float(np.log(counts.probabilities(test)[1:]).mean())
        row = figures(nats, len(test) - 1, level)
        name = f"{order}-gram, Kneser-Ney" if order > 1 else "1-gram"
        seconds = time.perf_counter() - started
        baselines.append({"name": name, "seconds": seconds, **row})
    return baselines


def details_of(config: Any, data: LanguageData, estimator: LanguageModel) -> dict[str, Any]:
    """Return details.json: data, an excerpt with its surprisals, a sample, command, environment."""
    vocabulary, network = data.inputs.vocabulary, estimator.network_
    sampled = generate(
        estimator.predictor_, [vocabulary.END], EXCERPT, size=len(vocabulary), top_p=0.9,
        never=[vocabulary.UNKNOWN], seed=config.seed,
    )  # fmt: skip
    usual = defaults(config.preset, demo=config.demo)
    return {
        "title": f"Language model of {data.source}",
        "data": data.report,
        "excerpt": surprisals(data, estimator),
        "sample": [vocabulary.words[token] for token in sampled],
        "command": command_of("language", config, usual),
        "config": config.to_dict(),
        "environment": fingerprint(network.embedding.weight.device if network else "cpu"),
    }


def surprisals(data: LanguageData, estimator: LanguageModel) -> list[dict[str, Any]]:
    """Return the first tokens of the test text, each with its surprisal in bits."""
    tokens = data.tokens["test"][: EXCERPT + 1]
    logs = estimator.predictor_.read(tokens[:-1])[0]
    bits = -logs.gather(1, tokens[1:, None])[:, 0] / math.log(2)
    words = data.inputs.vocabulary.decode(tokens[1:].tolist())
    return [{"token": w, "bits": round(b, 2)} for w, b in zip(words, bits.tolist(), strict=True)]


def summary(metrics: dict[str, Any]) -> str:
    """Return the closing lines for the terminal: token counts, perplexities, baselines."""
    best = metrics["valid"] or {}
    parts = metrics["parts"].items() if len(metrics["parts"]) > 1 else ()
    rows = [
        (metrics["model"], metrics["test"]),
        *((f"  {name} alone, {_share(own['share'])}", own) for name, own in parts),
        *((baseline["name"], baseline) for baseline in metrics["baselines"]),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{metrics['test']['tokens']:,} tokens of the test text"]
    for name, row in rows:
        bits = row.get("bits_per_character")
        shown = "" if bits is None else f"   {bits:.3f} bits per character"
        lines.append(f"{name:<{width}}  perplexity {row['perplexity']:9.2f}{shown}")
    if best.get("valid_perplexity"):
        lines[1] += f"   (validation {best['valid_perplexity']:.2f}, epoch {best['epoch']})"
    return "\n".join(lines)


def _share(share: float) -> str:
    return f"{100 * share:.0f} % of the score" if share else "which adds nothing and was dropped"
