"""``fit language``: train and test a language model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from representer.models import LanguageModel
from representer.printable import say, show
from representer.report import write_report
from representer.storage import checkpoint
from representer.storage.run_folder import RunFolder
from representer.tasks.language.language_config import LanguageConfig
from representer.tasks.language.language_data import LanguageData, prepare
from representer.tasks.language.language_results import details_of, metrics_of, summary
from representer.tasks.language.language_run import TASK, start_from, write_inputs
from representer.tasks.language.language_training import (
    build_model,
    optimizer_for,
    trainer_config,
    training_task,
)
from representer.tasks.language.memory import available, check_memory
from representer.tasks.options import as_yaml, determining
from representer.tasks.packages import require
from representer.training.trainer import Trainer
from representer.training.training_result import TrainingResult

NEEDED = ("accelerate", "safetensors", "matplotlib", "jinja2")

# A resumed run may change these; the trainer checks its own settings.
_OPTIONS_WITHOUT_EFFECT_ON_TRAINING = (
    "data",
    "valid",
    "test",
    "out",
    "baselines",
    "preset",
    "resume",
    "demo",
    "encoding",
)


@dataclass(frozen=True)
class Trained:
    """A language model at the end of its training, with its best weights."""

    config: LanguageConfig
    model: LanguageModel
    training: TrainingResult


def fit(config: LanguageConfig) -> dict[str, Any]:
    """Train a language model, test it, and write the run folder.

    Nothing is written before the data have been read and checked.

    Args:
        config: The run.

    Returns:
        The metrics, as in metrics.json.

    Raises:
        RepresenterError: As ``errors`` lists them; the message names the location and the fix.
    """
    require("fit language", *NEEDED)
    config = with_default_output_dir(config)
    data = prepare(config)
    with RunFolder(config.out or "", resume=config.resume) as run:
        return evaluate_and_report(run, data, train(run, config, data))


def with_default_output_dir(config: LanguageConfig) -> LanguageConfig:
    """Return the configuration with a run folder, by default named after the data."""
    name = "language-demo" if config.demo else Path(config.data or TASK).name.partition(".")[0]
    return replace(config, out=config.out or f"runs/{name}")


def train(run: RunFolder, config: LanguageConfig, data: LanguageData) -> Trained:
    """Train a model in a folder, or continue its training."""
    corpus = data.corpus
    say(
        f"{data.source}: {len(corpus.train):,} tokens to train on, {len(corpus.valid):,} to "
        f"validate, {len(corpus.test):,} to test; {len(corpus.vocabulary):,} different ones"
    )
    check_memory(config, len(corpus.vocabulary), available())
    model = build_model(config, len(corpus.vocabulary))
    if not checkpoint.steps(run.checkpoints):  # otherwise they exist and must not change
        if config.start_from is not None:
            start_from(model, Path(config.start_from), corpus.vocabulary)
        write_inputs(run, config, data, model)
    trainer = Trainer(
        model,
        training_task(config, data, model),
        trainer_config(config),
        run,
        optimizer=optimizer_for(config, model),
        settings=settings(config, data),
    )
    result = trainer.fit()
    run.write_text("config.yaml", as_yaml(config))  # a resumed run may have more epochs
    trainer.restore_best()
    return Trained(config, model.eval(), result)


def evaluate_and_report(run: RunFolder, data: LanguageData, trained: Trained) -> dict[str, Any]:
    """Test the model, write the results, and print them."""
    if not run.is_writer:
        return {}
    metrics = metrics_of(trained.config, data, trained.model, trained.training)
    run.write_json("details.json", details_of(trained.config, data, trained.model))
    run.write_json("metrics.json", metrics)
    page = write_report(run.path)
    show(summary(metrics))
    show(f"report: {page}")
    return metrics


def settings(config: LanguageConfig, data: LanguageData) -> dict[str, Any]:
    """Return the settings that determine a run, except those that the trainer checks."""
    chosen = determining(config, trainer_config(config), _OPTIONS_WITHOUT_EFFECT_ON_TRAINING)
    return {**chosen, "sha256": data.digests}
