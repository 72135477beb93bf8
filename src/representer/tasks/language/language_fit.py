"""``fit language``: train a `LanguageModel`, test it, and write the report."""

from __future__ import annotations

from typing import Any

from representer.data.language import PARTS
from representer.estimators import LanguageModel
from representer.printable import say
from representer.storage import checkpoint
from representer.storage.run_folder import RunFolder
from representer.tasks.language.language_data import LanguageData, prepare
from representer.tasks.language.language_results import closing, details_of, metrics_of
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
