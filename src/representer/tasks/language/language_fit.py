"""``fit language``: train a `LanguageModel`, test it, and write its results and the report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.language import PARTS
from representer.estimators import LanguageModel
from representer.estimators.language_predictors import figures
from representer.estimators.language_report import (
    explained_lines,
    lines_of_tokens,
    part_figures,
    sample,
    surprisals,
    text_figures,
    token_counts,
)
from representer.estimators.results import model_name, parameter_counts
from representer.kernels.kneser_ney import KneserNey
from representer.printable import say
from representer.report.metrics import perplexity_difference
from representer.report.standing import PERPLEXITY, parts_sentence, standing
from representer.storage import checkpoint
from representer.storage.run_folder import RunFolder
from representer.tasks.language.language_data import LanguageData, prepare
from representer.tasks.language.language_task import defaults
from representer.tasks.options import as_yaml, determining
from representer.tasks.run_flow import (
    WITHOUT_EFFECT_ON_TRAINING,
    named,
    opened,
    publish,
    repeated,
    require_same_options,
)
from representer.training.training_result import TrainingResult


def fit(config: Any) -> dict[str, Any]:
    """Train a language model, test it, and write the run folder.

    Nothing is written before the data have been read and checked. A finished demo prints its
    results again, and an interrupted one continues.

    Args:
        config: The options of the run.

    Returns:
        The metrics, as in metrics.json.

    Raises:
        RepresenterError: As ``errors`` lists them; the message names the location and the fix.
    """
    config = named(config, "language-demo", "language")
    prepared = prepare(config)
    with opened(config) as run:
        return _train_and_report(run, config, *prepared)


def fit_in(run: RunFolder, config: Any) -> dict[str, Any]:
    """Train and test a language model in a folder that is open already, see `fit`."""
    return _train_and_report(run, config, *prepare(config))


def _train_and_report(
    run: RunFolder, config: Any, estimator: LanguageModel, data: LanguageData
) -> dict[str, Any]:
    train, valid, test = (data.tokens[part] for part in PARTS)
    say(
        f"{data.source}: {len(train):,} tokens to train on, {len(valid):,} to validate, "
        f"{len(test):,} to test; a vocabulary of {len(data.inputs.vocabulary):,}"
    )
    counts = token_counts(data.inputs, test)
    words = counts["tokens"] - counts["lines"]
    if 3 * counts["unknown"] > words and data.inputs.level == "word":
        say(
            f"{counts['unknown'] / words:.0%} of the words to test are unknown, so perplexity "
            "tells little; --level char reads characters"
        )
    is_trained = run.resume and bool(checkpoint.steps(run.checkpoints))
    network = None
    if estimator.has_network:
        network = estimator.new_network(config.seed, is_resumed=is_trained)
    if run.resume:
        require_same_options(run.path, config, data.splits())
    if not is_trained:  # otherwise they exist and must not change
        run.write_text("config.yaml", as_yaml(config))
        run.write_json("splits.json", data.splits())
    result = estimator.train_on(
        run, network, train, valid, config.seed,
        settings=lambda trainer: determining(config, trainer, WITHOUT_EFFECT_ON_TRAINING)
        | {"sha256": data.digests},
    )  # fmt: skip
    run.write_text("config.yaml", as_yaml(config))  # a resumed run may have more epochs
    if not run.is_writer:
        return {}
    metrics = metrics_of(config, data, estimator, result)
    usual = defaults(config.preset, demo=config.demo)
    details = details_of(config, data, estimator) | repeated("language", config, usual, estimator)
    return publish(run, metrics, details, closing(metrics))


LINES = 6  # of an explanation in the report
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
    lines = len(set(lines_of_tokens(test).tolist()))
    units = lines if lines > 1 else count
    found = standing(model, differences, PERPLEXITY, f"{count} test tokens", units)
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
        "title": f"Language model of {data.source if config.demo else Path(data.source).name}",
        "data": data.report,
        "excerpt": surprisals(estimator, data.tokens["test"]),
        "sample": sample(estimator, config.seed),
        "examples": explained_lines(estimator, data.tokens["test"], LINES),
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
