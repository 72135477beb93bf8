"""``fit language``: train a `LanguageModel`, test it, and write the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from representer.data.language import PARTS
from representer.estimators import LanguageModel
from representer.printable import say, show
from representer.report import write_report
from representer.storage import checkpoint
from representer.storage.run_folder import RunFolder
from representer.tasks.estimator_options import parameters_of
from representer.tasks.language.language_data import LanguageData, prepare
from representer.tasks.language.language_results import details_of, metrics_of, summary
from representer.tasks.options import as_yaml, determining

# A resumed run may change these; the trainer checks its own settings.
_OPTIONS_WITHOUT_EFFECT_ON_TRAINING = (
    "data", "valid", "test", "out", "baselines", "preset", "resume", "demo", "encoding", "device",
    "time_limit",
)  # fmt: skip


def fit(config: Any) -> dict[str, Any]:
    """Train a language model, test it, and write the run folder.

    Nothing is written before the data have been read and checked.

    Args:
        config: The options of the run.

    Returns:
        The metrics, as in metrics.json.

    Raises:
        RepresenterError: As ``errors`` lists them; the message names the location and the fix.
    """
    path = "language-demo" if config.demo else config.data or "language"
    config = replace(config, out=config.out or f"runs/{Path(path).name.partition('.')[0]}")
    prepared = _prepared(config)
    with RunFolder(config.out, resume=config.resume) as run:
        return _train_and_report(run, config, *prepared)


def fit_in(run: RunFolder, config: Any) -> dict[str, Any]:
    """Train and test a language model in a folder that is open already, see `fit`."""
    return _train_and_report(run, config, *_prepared(config))


def _prepared(config: Any) -> tuple[LanguageModel, LanguageData]:
    estimator = LanguageModel(**parameters_of(config, LanguageModel))
    estimator.check()
    return estimator, prepare(config, estimator)


def _train_and_report(
    run: RunFolder, config: Any, estimator: LanguageModel, data: LanguageData
) -> dict[str, Any]:
    train, valid, test = (data.tokens[part] for part in PARTS)
    say(
        f"{data.source}: {len(train):,} tokens to train on, {len(valid):,} to validate, "
        f"{len(test):,} to test; a vocabulary of {len(data.inputs.vocabulary):,}"
    )
    is_resumed = config.resume and bool(checkpoint.steps(run.checkpoints))
    network = None
    if estimator.has_network:
        network = estimator.new_network(config.seed, is_resumed=is_resumed)
    if not is_resumed:  # otherwise they exist and must not change
        run.write_text("config.yaml", as_yaml(config))
        run.write_json("splits.json", {"sha256": data.digests, **data.report})
    result = estimator.train_on(
        run, network, train, valid, config.seed,
        settings=lambda trainer: _settings(config, data, trainer),
    )  # fmt: skip
    run.write_text("config.yaml", as_yaml(config))  # a resumed run may have more epochs
    if not run.is_writer:
        return {}
    metrics = metrics_of(config, data, estimator, result)
    run.write_json("details.json", details_of(config, data, estimator))
    run.write_json("metrics.json", metrics)
    page = write_report(run.path)
    show(summary(metrics))
    show(f"report: {page}")
    return metrics


def _settings(config: Any, data: LanguageData, trainer: Any) -> dict[str, Any]:
    """Return the settings that determine a run, except those that the trainer checks."""
    chosen = determining(config, trainer, _OPTIONS_WITHOUT_EFFECT_ON_TRAINING)
    return {**chosen, "sha256": data.digests}
