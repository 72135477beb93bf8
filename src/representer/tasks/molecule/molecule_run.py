"""What a run folder of a model of molecules holds, written at the start and read to use it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from representer.errors import DataError
from representer.models import GraphEnsemble, GraphRegressorConfig, from_dict, to_dict
from representer.tasks.molecule.molecule_answers import Answers
from representer.tasks.molecule.molecule_config import MoleculeConfig, MoleculeReading
from representer.tasks.molecule.molecule_data import MoleculeData
from representer.tasks.molecule.molecule_model import outputs_of
from representer.tasks.molecule.molecule_targets import Targets
from representer.tasks.molecule.molecule_uncertainty import Calibration, calibrate
from representer.tasks.options import as_yaml
from representer.tasks.storage.run_files import WEIGHTS, describe, load_weights, read
from representer.tasks.storage.run_folder import RunFolder

TASK = "molecule"
NAMES = {
    "wl": "WL kernel network", "random-walk": "random-walk kernel network", "gine": "GINE"
}  # fmt: skip
CALIBRATION = "uncertainty.json"


@dataclass(frozen=True)
class TrainedMolecule:
    """A trained model with all that is needed to ask it.

    Attributes:
        model: In evaluation mode.
        targets: What it answers.
        reading: The columns of the training data.
        features: Length of the list of atom features.
        calibration: Of a regression's uncertainties; None of a classification.
    """

    model: GraphEnsemble
    targets: Targets
    reading: MoleculeReading
    features: int
    calibration: Calibration | None

    def answers(self, graphs: Sequence[Any]) -> Answers:
        """Return the answers for molecules."""
        outputs = outputs_of(self.model, graphs)
        name = name_of(self.model)
        if self.calibration is None:
            return Answers(name, probabilities=self.targets.probabilities(outputs))
        found = self.targets.in_unit(outputs)
        deviations = self.calibration.deviations(found.var(0))
        return Answers(name, numbers=found.mean(0), deviations=deviations)


def name_of(model: GraphEnsemble) -> str:
    """Return the name of a model, with the number of its members."""
    members = len(model.members)
    return NAMES[model.config.network] + (f", mean of {members}" if members > 1 else "")


def calibrated(model: GraphEnsemble, data: MoleculeData) -> Calibration | None:
    """Return how a model's uncertainties are to be read, from the validation molecules."""
    if not data.targets.is_regression:
        return None
    found = data.targets.in_unit(outputs_of(model, data.valid.graphs))
    return calibrate(found.mean(0), found.var(0), data.valid.values)


def write_inputs(
    run: RunFolder, config: MoleculeConfig, data: MoleculeData, model: GraphEnsemble
) -> None:
    """Write what a run is made of: all but the weights and the results."""
    run.write_text("config.yaml", as_yaml(config))
    run.write_json("splits.json", data.splits())
    if data.skipped:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([("file", "line", "reason"), *data.skipped])
        run.write_text("skipped.csv", text.getvalue())
    described = {
        "task": TASK,
        "model": to_dict(model.config),
        "members": len(model.members),
        "targets": data.targets.to_dict(),
        "reading": asdict(data.reading),
        "features": config.features,
    }
    run.write_json("model.json", described)


def load_run(folder: str | Path) -> TrainedMolecule:
    """Read the model of a run folder.

    Raises:
        DataError: If the folder holds no trained model of molecules.
        CheckpointError: If its weights are damaged.
    """
    folder = Path(folder)
    described = describe(folder)
    if described.get("task") != TASK:
        raise DataError("is no model of molecules", file=folder / "model.json")
    model = GraphEnsemble(from_dict(GraphRegressorConfig, described["model"]), described["members"])
    load_weights(model, folder / WEIGHTS)
    targets = Targets.from_dict(described["targets"])
    calibration = None
    if targets.is_regression:
        calibration = _calibration(folder, len(targets.names))
    reading = MoleculeReading(**described["reading"])
    return TrainedMolecule(model.eval(), targets, reading, described["features"], calibration)


def _calibration(folder: Path, targets: int) -> Calibration:
    """Read the calibration, which is written when the training has come to its end."""
    if not (folder / CALIBRATION).is_file():
        return Calibration((1.0,) * targets, (0.0,) * targets)
    try:
        found = Calibration.from_dict(json.loads(read(folder / CALIBRATION)))
        if np.shape([found.scales, found.noises]) == (2, targets):
            return found
    except (ValueError, KeyError, TypeError):
        pass
    raise DataError("is damaged", file=folder / CALIBRATION, mend="Train again.")
