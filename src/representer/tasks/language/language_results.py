"""Results of a finished language run: metrics.json, details.json, closing lines."""

from __future__ import annotations

import math
from typing import Any

import torch

from representer.estimators.generate import generate
from representer.estimators.perplexity import figures, negative_log_likelihood
from representer.models import LanguageModel
from representer.tasks.language.kneser_ney import kneser_ney
from representer.tasks.language.language_config import defaults
from representer.tasks.language.language_data import LanguageData
from representer.tasks.options import command_of
from representer.training.fingerprint import fingerprint
from representer.training.training_result import TrainingResult

EXCERPT = 150  # tokens of the excerpt of the test text, and of the sample
ORDERS = {"word": (1, 3), "char": (1, 5)}


def metrics_of(
    config: Any, data: LanguageData, model: LanguageModel, training: TrainingResult
) -> dict[str, Any]:
    """Return metrics.json: the test metrics, and how training went."""
    test, level = data.tokens["test"], data.inputs.level
    nats = negative_log_likelihood(model, test)
    parts = {"embedding": model.embedding, "layers": model.layers, "output": model.output}
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    return {
        "task": "language",
        "model": config.cell,
        "level": level,
        "test": figures(nats, len(test) - 1, level),
        "valid": training.best,
        "epochs": training.epoch,
        "steps": training.step,
        "stopped_by": training.reason,
        "seconds": training.seconds,
        "parameters": {**counts, "all": sum(counts.values())},
        "baselines": baselines_of(data) if config.baselines != "none" else [],
    }


def baselines_of(data: LanguageData) -> list[dict[str, Any]]:
    """Return the metrics of n-gram counts on the same test text."""
    train, test = (data.tokens[part].numpy() for part in ("train", "test"))
    words, level, baselines = len(data.inputs.vocabulary), data.inputs.level, []
    for order in ORDERS[level]:
        if words**order < 2**62:
            nats = kneser_ney(train, test, words, order)
            row = figures(nats, len(test) - 1, level)
            baselines.append(
                {"name": f"{order}-gram, Kneser-Ney" if order > 1 else "1-gram", **row}
            )
    return baselines


def details_of(config: Any, data: LanguageData, model: LanguageModel) -> dict[str, Any]:
    """Return details.json: data, an excerpt with its surprisals, a sample, command, environment."""
    vocabulary = data.inputs.vocabulary
    sampled = generate(
        model, [vocabulary.END], EXCERPT, top_p=0.9, never=[vocabulary.UNKNOWN], seed=config.seed
    )
    usual = defaults(config.preset, demo=config.demo)
    return {
        "title": f"Language model of {data.source}",
        "data": data.report,
        "excerpt": surprisals(data, model),
        "sample": [vocabulary.words[token] for token in sampled],
        "command": command_of("language", config, usual),
        "config": config.to_dict(),
        "environment": fingerprint(next(model.parameters()).device),
    }


@torch.no_grad()
def surprisals(data: LanguageData, model: LanguageModel) -> list[dict[str, Any]]:
    """Return the first tokens of the test text, each with its surprisal in bits."""
    tokens = data.tokens["test"][: EXCERPT + 1].to(next(model.parameters()).device)
    features = model(tokens[:-1, None]).features
    logs = model.output.log_probabilities(features)[:, 0]
    bits = -logs.gather(1, tokens[1:, None])[:, 0] / math.log(2)
    words = data.inputs.vocabulary.decode(tokens[1:].tolist())
    return [{"token": w, "bits": round(b, 2)} for w, b in zip(words, bits.tolist(), strict=True)]


def summary(metrics: dict[str, Any]) -> str:
    """Return the closing lines for the terminal: token counts, perplexities, baselines."""
    best = metrics["valid"] or {}
    rows = [(metrics["model"], metrics["test"]), *((b["name"], b) for b in metrics["baselines"])]
    width = max(len(name) for name, _ in rows)
    lines = [f"{metrics['test']['tokens']:,} tokens of the test text"]
    for name, row in rows:
        bits = row.get("bits_per_character")
        shown = "" if bits is None else f"   {bits:.3f} bits per character"
        lines.append(f"{name:<{width}}  perplexity {row['perplexity']:9.2f}{shown}")
    if best.get("valid_perplexity"):
        lines[1] += f"   (validation {best['valid_perplexity']:.2f}, epoch {best['epoch']})"
    return "\n".join(lines)
