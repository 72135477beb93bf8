"""``fit text``: train, test and report a classifier for a table of texts and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from representer.data.text import WordVectors, read_vectors
from representer.estimators.classes import Classes
from representer.estimators.fitting import outputs_of
from representer.models import SequenceClassifier
from representer.models.cells import TITLES
from representer.printable import say, show
from representer.report import write_report
from representer.storage import checkpoint
from representer.storage.run_folder import RunFolder
from representer.tasks.baselines import Baseline
from representer.tasks.options import as_yaml, determining
from representer.tasks.text.text_config import TextConfig
from representer.tasks.text.text_data import TextData, prepare
from representer.tasks.text.text_model import estimator_of, examples_of
from representer.tasks.text.text_results import (
    Predictions,
    details_of,
    metrics_of,
    summary,
    train_baselines,
    verdict,
)
from representer.training.trainer_config import TrainerConfig

# A run may be resumed with other values of these; the trainer checks its own settings.
_OPTIONS_WITHOUT_EFFECT_ON_TRAINING = (
    "data",
    "valid",
    "test",
    "out",
    "vectors",
    "baselines",
    "preset",
    "resume",
    "demo",
)


@dataclass(frozen=True)
class Trained:
    """A trained model with its best weights, and its test predictions."""

    config: TextConfig
    model: SequenceClassifier
    predictions: Predictions


def fit(config: TextConfig) -> dict[str, Any]:
    """Train a classifier, test it, and write the run folder.

    Nothing is written before the data have been read and checked.

    Args:
        config: The run.

    Returns:
        The metrics, as in metrics.json.

    Raises:
        RepresenterError: See ``errors``; the message names the location and the fix.
    """
    config = with_default_output_dir(config)
    data = prepare(config)
    vectors = read_vectors(config.vectors, data.vocabulary) if config.vectors else None
    with RunFolder(config.out or "", resume=config.resume) as run:
        return evaluate_and_report(run, data, train(run, config, data, vectors))


def with_default_output_dir(config: TextConfig) -> TextConfig:
    """Return the configuration with a run folder, by default named after the data."""
    name = "demo" if config.demo else Path(config.data or "text").name.partition(".")[0]
    return replace(config, out=config.out or f"runs/{name}")


def train(
    run: RunFolder, config: TextConfig, data: TextData, vectors: WordVectors | None
) -> Trained:
    """Train one model in a folder, or continue its training, and predict the test documents."""
    estimator = estimator_of(config, data, vectors)
    model = cast(SequenceClassifier, estimator.new_network(config.seed))
    if vectors is not None:
        coverage = estimator.coverage_
        running = coverage.running(_counts(data))
        data.report["coverage"] = f"{coverage}; {running:.1%} of running words"
        say(f"{config.vectors}: {data.report['coverage']}")
    if not checkpoint.steps(run.checkpoints):  # otherwise they exist and must not change
        run.write_text("config.yaml", as_yaml(config))
        run.write_json("splits.json", data.splits())
    result = estimator.train_on(
        run, model, examples_of(data, data.train), examples_of(data, data.valid), config.seed,
        settings=lambda trainer: _settings(config, data, trainer), reading=asdict(data.reading),
    )  # fmt: skip
    run.write_text("config.yaml", as_yaml(config))  # a resumed run may have more epochs
    outputs = outputs_of(model, estimator.inputs_, examples_of(data, data.test).objects)
    predicted = cast(Classes, estimator.target_).probabilities(outputs)
    return Trained(
        config, model, Predictions(TITLES[config.cell], predicted, result, _parameters(model))
    )


def evaluate_and_report(
    run: RunFolder,
    data: TextData,
    trained: Trained,
    others: Sequence[Predictions] = (),
    baselines: Sequence[Baseline] | None = None,
    explanation: str = "",
) -> dict[str, Any]:
    """Compare with baselines and other models, write the results, print the closing table.

    If several processes trained the model, only the first does this; the others return nothing.

    Args:
        run: The folder.
        data: Data of the run.
        trained: The model.
        others: Predictions of other models for the same documents.
        baselines: Baselines trained on this split; trained here if None.
        explanation: Printed between the table and the path of the report.
    """
    if not run.is_writer:
        return {}
    config, predictions = trained.config, trained.predictions
    if baselines is None:
        baselines = train_baselines(data, tuned=config.demo) if config.baselines else []
    steps_per_epoch = -(-len(data.train) // config.batch_size)
    metrics = metrics_of(data, predictions, baselines, others, steps_per_epoch)
    details = details_of(config, data, trained.model, predictions)
    run.write_json("details.json", details | {"verdict": verdict(metrics)})
    run.write_json("metrics.json", metrics)
    page = write_report(run.path)
    for text in (summary(metrics), verdict(metrics), explanation):
        if text:
            show(text)
    show(f"report: {page}")
    return metrics


def _settings(config: TextConfig, data: TextData, trainer: TrainerConfig) -> dict[str, Any]:
    chosen = determining(config, trainer, _OPTIONS_WITHOUT_EFFECT_ON_TRAINING)
    return {**chosen, "sha256": {s["role"]: s["sha256"] for s in data.report["sources"]}}


def _counts(data: TextData) -> dict[str, int]:
    counts: dict[str, int] = {}
    for tokens in data.train.tokens:
        for token in tokens:
            counts[token] = counts.get(token, 0) + 1
    return counts


def _parameters(model: Any) -> dict[str, int]:
    parts = {"word vectors": model.embedding, "cell": model.cell, "classifier": model.head}
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
    return {**counts, "all": sum(counts.values())}
