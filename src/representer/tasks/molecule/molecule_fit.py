"""``fit molecule``: from a table of SMILES and values to a trained, tested and described model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from representer.tasks.molecule.molecule_answers import Answers
from representer.tasks.molecule.molecule_baselines import train_baselines
from representer.tasks.molecule.molecule_config import MoleculeConfig
from representer.tasks.molecule.molecule_data import MoleculeData, prepare
from representer.tasks.molecule.molecule_model import build_model, trainer_config, training_task
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
from representer.tasks.report import write_report
from representer.tasks.storage import checkpoint
from representer.tasks.storage.run_folder import RunFolder, refuse_links
from representer.tasks.training.progress import say, show
from representer.tasks.training.trainer import Trainer
from representer.tasks.training.training_result import TrainingResult

NEEDED = (
    "accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2", "torch_geometric", "rdkit"
)  # fmt: skip
PEER = "gine"

# What a run may be resumed with another value of; the trainer watches over its own settings.
_FREE = ("data", "valid", "test", "out", "baselines", "preset", "resume", "demo", "skip_invalid")
_FREE += ("answers",)


@dataclass(frozen=True)
class Trained:
    """A model at the end of its training, with its best weights, and what it answered."""

    config: MoleculeConfig
    trained: TrainedMolecule
    answers: Answers
    training: TrainingResult


def fit(config: MoleculeConfig) -> dict[str, Any]:
    """Train a model of molecules, test it, and write the run folder.

    The network that it is compared with, GINE of the same size and number of members, is trained
    beside it in ``RUN/gine``. Nothing is written before the data have been read and found good.

    Args:
        config: The run.

    Returns:
        The metrics, as in metrics.json.

    Raises:
        RepresenterError: As ``errors`` lists them; the message has the place and the mend.
    """
    require("fit molecule", *NEEDED)
    config = with_default_output_dir(config)
    data = prepare(config)
    is_rerun = config.demo and Path(config.out or "").exists()  # a demo has nothing to lose
    with RunFolder(config.out or "", resume=config.resume or is_rerun) as run:
        trained = train(run, config, data)
        rivals = [_peer(config, data)] if config.baselines and config.network != PEER else []
        return evaluate_and_report(run, data, trained, rivals)


def with_default_output_dir(config: MoleculeConfig) -> MoleculeConfig:
    """Return the configuration with a run folder, named after the data where none was chosen."""
    name = "molecule-demo" if config.demo else Path(config.data or TASK).name.partition(".")[0]
    return replace(config, out=config.out or f"runs/{name}")


def train(run: RunFolder, config: MoleculeConfig, data: MoleculeData) -> Trained:
    """Train one model in a folder, or go on with it, and ask it about the test molecules."""
    counts = f"{len(data.train)} molecules to train on, {len(data.valid)} to validate"
    say(f"{config.network}: {counts}, {len(data.test)} to test")
    model = build_model(config, data.targets)
    if not checkpoint.steps(run.checkpoints):  # otherwise all is there, and may not change
        write_inputs(run, config, data, model)
    trainer = Trainer(
        model, training_task(config, data), trainer_config(config), run,
        settings=_settings(config, data),
    )  # fmt: skip
    result = trainer.fit()
    run.write_text("config.yaml", as_yaml(config))  # more epochs than before, perhaps
    trainer.restore_best()
    model.eval()
    trained = calibrated(model, data, config)
    write_uncertainty(run, trained)
    answers = replace(trained.answers(data.test.graphs), seconds=result.seconds)
    return Trained(config, trained, answers, result)


def evaluate_and_report(
    run: RunFolder, data: MoleculeData, trained: Trained, rivals: Sequence[Answers]
) -> dict[str, Any]:
    """Train the baselines, write the results, and print the closing table.

    Where several processes trained the model, the first alone does this; the others return nothing.
    """
    if not run.is_writer:
        return {}
    config, answers = trained.config, trained.answers
    if config.baselines:
        rivals = [*rivals, *train_baselines(data)]
    parameters = parameters_of(trained.trained.model)
    metrics = metrics_of(config, data, answers, rivals, trained.training, parameters)
    details = details_of(config, data, trained.trained, answers)
    run.write_json("details.json", details | {"verdict": verdict(data.targets, metrics)})
    run.write_json("metrics.json", metrics)
    page = write_report(run.path)
    show(summary(data.targets, metrics))
    show(f"report: {page}")
    return metrics


def _peer(config: MoleculeConfig, data: MoleculeData) -> Answers:
    """Train the network that is compared with, in a folder of its own inside the run's."""
    folder = Path(config.out or "") / PEER
    peer = replace(config, network=PEER, out=str(folder), baselines=False)
    refuse_links(folder)
    with RunFolder(folder, resume=folder.exists()) as beside:
        answers = train(beside, peer, data).answers
    about = "PyG's GINEConv of the same width, depth and number of members, trained likewise."
    return replace(answers, description=about)


def _settings(config: MoleculeConfig, data: MoleculeData) -> dict[str, Any]:
    chosen = determining(config, trainer_config(config), _FREE)
    digests = {s["role"]: s["sha256"] for s in data.report["sources"]}
    return {**chosen, "sha256": digests, "molecules": len(data.train)}
