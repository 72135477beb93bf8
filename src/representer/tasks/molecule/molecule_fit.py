"""``fit molecule``: train, test and report a model for a table of SMILES and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from representer.printable import say, show
from representer.report import write_report
from representer.storage import checkpoint
from representer.storage.run_folder import RunFolder, refuse_links
from representer.tasks.molecule.molecule_baselines import train_baselines
from representer.tasks.molecule.molecule_config import MoleculeConfig
from representer.tasks.molecule.molecule_data import MoleculeData, prepare
from representer.tasks.molecule.molecule_model import build_model, trainer_config, training_task
from representer.tasks.molecule.molecule_predictions import Predictions
from representer.tasks.molecule.molecule_results import (
    details_of,
    metrics_of,
    parameters_of,
    summary,
    verdict,
)
from representer.tasks.molecule.molecule_run import (
    TASK,
    TrainedMolecule,
    calibrated,
    write_inputs,
    write_uncertainty,
)
from representer.tasks.options import as_yaml, determining
from representer.tasks.packages import require
from representer.training.trainer import Trainer
from representer.training.training_result import TrainingResult

NEEDED = (
    "accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2", "torch_geometric", "rdkit"
)  # fmt: skip
BASELINE_NETWORK = "gine"

# A run may be resumed with other values of these; the trainer checks its own settings.
_OPTIONS_WITHOUT_EFFECT_ON_TRAINING = (
    "data",
    "valid",
    "test",
    "out",
    "baselines",
    "preset",
    "resume",
    "demo",
    "skip_invalid",
)
_OPTIONS_WITHOUT_EFFECT_ON_TRAINING += ("answers",)


@dataclass(frozen=True)
class Trained:
    """A trained model with its best weights, and its test predictions."""

    config: MoleculeConfig
    trained: TrainedMolecule
    predictions: Predictions
    training: TrainingResult


def fit(config: MoleculeConfig) -> dict[str, Any]:
    """Train a model of molecules, test it, and write the run folder.

    The baseline network, GINE of the same size and number of members, is trained in ``RUN/gine``.
    Nothing is written before the data have been read and checked.

    Args:
        config: The run.

    Returns:
        The metrics, as in metrics.json.

    Raises:
        RepresenterError: See ``errors``; the message names the location and the fix.
    """
    require("fit molecule", *NEEDED)
    config = with_default_output_dir(config)
    data = prepare(config)
    is_rerun = config.demo and Path(config.out or "").exists()  # a demo continues without --resume
    with RunFolder(config.out or "", resume=config.resume or is_rerun) as run:
        trained = train(run, config, data)
        baselines = (
            [_train_baseline_network(config, data)]
            if config.baselines and config.network != BASELINE_NETWORK
            else []
        )
        return evaluate_and_report(run, data, trained, baselines)


def with_default_output_dir(config: MoleculeConfig) -> MoleculeConfig:
    """Return the configuration with a run folder, by default named after the data."""
    name = "molecule-demo" if config.demo else Path(config.data or TASK).name.partition(".")[0]
    return replace(config, out=config.out or f"runs/{name}")


def train(run: RunFolder, config: MoleculeConfig, data: MoleculeData) -> Trained:
    """Train one model in a folder, or continue its training, and predict the test molecules."""
    counts = f"{len(data.train)} training molecules, {len(data.valid)} validation"
    say(f"{config.network}: {counts}, {len(data.test)} test")
    model = build_model(config, data.targets)
    if not checkpoint.steps(run.checkpoints):  # otherwise they exist and must not change
        write_inputs(run, config, data, model)
    trainer = Trainer(
        model, training_task(config, data), trainer_config(config), run,
        settings=_settings(config, data),
    )  # fmt: skip
    result = trainer.fit()
    run.write_text("config.yaml", as_yaml(config))  # a resumed run may have more epochs
    trainer.restore_best()
    model.eval()
    trained = calibrated(model, data, config)
    write_uncertainty(run, trained)
    predictions = replace(trained.predict(data.test.graphs), seconds=result.seconds)
    return Trained(config, trained, predictions, result)


def evaluate_and_report(
    run: RunFolder, data: MoleculeData, trained: Trained, baselines: Sequence[Predictions]
) -> dict[str, Any]:
    """Train the baselines, write the results, and print the closing table.

    If several processes trained the model, only the first does this; the others return nothing.
    """
    if not run.is_writer:
        return {}
    config, predictions = trained.config, trained.predictions
    if config.baselines:
        baselines = [*baselines, *train_baselines(data)]
    parameters = parameters_of(trained.trained.model)
    metrics = metrics_of(config, data, predictions, baselines, trained.training, parameters)
    details = details_of(config, data, trained.trained, predictions)
    run.write_json("details.json", details | {"verdict": verdict(data.targets, metrics)})
    run.write_json("metrics.json", metrics)
    page = write_report(run.path)
    show(summary(data.targets, metrics))
    show(f"report: {page}")
    return metrics


def _train_baseline_network(config: MoleculeConfig, data: MoleculeData) -> Predictions:
    """Train the baseline network in a subfolder of the run."""
    folder = Path(config.out or "") / BASELINE_NETWORK
    baseline = replace(config, network=BASELINE_NETWORK, out=str(folder), baselines=False)
    refuse_links(folder)
    with RunFolder(folder, resume=folder.exists()) as beside:
        predictions = train(beside, baseline, data).predictions
    about = "PyG's GINEConv of the same width, depth and number of members, trained alike."
    return replace(predictions, description=about)


def _settings(config: MoleculeConfig, data: MoleculeData) -> dict[str, Any]:
    chosen = determining(config, trainer_config(config), _OPTIONS_WITHOUT_EFFECT_ON_TRAINING)
    digests = {s["role"]: s["sha256"] for s in data.report["sources"]}
    return {**chosen, "sha256": digests, "molecules": len(data.train)}
