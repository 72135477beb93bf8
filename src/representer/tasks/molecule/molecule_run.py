"""Write and load the run folder of a molecule model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from representer.estimators.graph_batches import outputs_of
from representer.estimators.graph_uncertainty import Uncertainty
from representer.estimators.targets import Numbers
from representer.models import GraphEnsemble, GraphRegressorConfig, to_dict
from representer.storage.run_files import MODEL, RunFiles, require_finite
from representer.storage.run_folder import RunFolder
from representer.tasks.molecule.molecule_config import FEATURES, MoleculeConfig, MoleculeReading
from representer.tasks.molecule.molecule_data import MoleculeData
from representer.tasks.molecule.molecule_predictions import Predictions
from representer.tasks.molecule.molecule_targets import Targets
from representer.tasks.options import as_yaml
from representer.tasks.table_file import as_csv

TASK = "molecule"
NAMES = {
    "wl": "WL kernel network", "random-walk": "random-walk kernel network", "gine": "GINE"
}  # fmt: skip


@dataclass(frozen=True)
class TrainedMolecule:
    """A trained model with everything that prediction needs.

    Attributes:
        model: The ensemble, in evaluation mode.
        targets: The targets.
        reading: Columns of the training data.
        features: Number of atom features.
        uncertainty: Gaussian process and calibration; None for a classification.
    """

    model: GraphEnsemble
    targets: Targets
    reading: MoleculeReading
    features: int
    uncertainty: Uncertainty | None

    @property
    def name(self) -> str:
        """Name of the model."""
        members = len(self.model.members)
        end = f", mean of {members}" if members > 1 else ""
        if self.uncertainty is not None and self.uncertainty.gp is not None:
            end = f"{end} and a Gaussian process"
        return NAMES[self.model.config.network] + end

    def mean(self, graphs: Sequence[Any]) -> NDArray[np.float64]:
        """Return the mean prediction of the members of a regression ``(N, K)``."""
        return self.targets.in_unit(outputs_of(self.model, graphs)).mean(0)

    def predict(self, graphs: Sequence[Any]) -> Predictions:
        """Return the predictions for molecules."""
        if self.uncertainty is None:
            outputs = outputs_of(self.model, graphs)
            require_finite(self.name, outputs)
            return Predictions(self.name, probabilities=self.targets.probabilities(outputs))
        coded = self.targets.coded
        assert isinstance(coded, Numbers)
        numbers, deviations = self.uncertainty.predict(self.model, coded, graphs, self.name)
        return Predictions(self.name, numbers=numbers, deviations=deviations)


def calibrated(model: GraphEnsemble, data: MoleculeData, config: MoleculeConfig) -> TrainedMolecule:
    """Return a trained model with its uncertainties calibrated on the validation molecules.

    For a regression, a Gaussian process on the last layers is added if the options say so and the
    training part is small enough.
    """
    plain = TrainedMolecule(model, data.targets, data.reading, config.features, None)
    coded = data.targets.coded
    if not isinstance(coded, Numbers):
        return plain
    train, valid = ((part.graphs, part.values) for part in (data.train, data.valid))
    has_gp = config.answers == "process"
    uncertainty = Uncertainty.fit(
        model, coded, train, valid, has_gp=has_gp, seed=config.seed, name=plain.name
    )
    return replace(plain, uncertainty=uncertainty)


def write_uncertainty(run: RunFolder, trained: TrainedMolecule) -> None:
    """Write calibration and Gaussian process."""
    if trained.uncertainty is not None:
        trained.uncertainty.write(run)


def write_inputs(
    run: RunFolder, config: MoleculeConfig, data: MoleculeData, model: GraphEnsemble
) -> None:
    """Write the inputs of a run: everything but weights and results."""
    run.write_text("config.yaml", as_yaml(config))
    run.write_json("splits.json", data.splits())
    if data.skipped:
        run.write_text("skipped.csv", as_csv([("file", "line", "reason"), *data.skipped]))
    described = {
        "task": TASK,
        "model": to_dict(model.config),
        "members": len(model.members),
        "targets": data.targets.to_dict(),
        "reading": asdict(data.reading),
        "features": config.features,
    }
    run.write_json(MODEL, described)


@dataclass(frozen=True)
class _Described:
    """model.json of a molecule run."""

    task: Literal["molecule"]
    model: GraphRegressorConfig
    members: int
    targets: Targets
    reading: MoleculeReading
    features: int

    def __post_init__(self) -> None:
        """Refuse targets and features that do not fit the model."""
        if self.members < 1 or self.members * max(self.model.depth, self.model.order) > 4096:
            raise ValueError(f"members is {self.members}; expected a positive integer up to 100")
        if self.features not in FEATURES or self.model.in_channels != self.features:
            raise ValueError(f"features is {self.features}; expected {self.model.in_channels}")
        targets, count = self.targets, len(self.targets.names)
        if not 0 < count == len(set(targets.names)) or sum(targets.widths) != self.model.outputs:
            raise ValueError(f"the targets do not fit a model of {self.model.outputs} outputs")
        if targets.is_regression:
            if not len(targets.means) == len(targets.scales) == count or min(targets.scales) <= 0:
                raise ValueError("the means and scales are not those of its targets")
        elif len(targets.classes) != count or any(
            not 0 < len(set(names)) == len(names) for names in targets.classes
        ):
            raise ValueError("the classes are not those of its targets")


def load_run(folder: str | Path) -> TrainedMolecule:
    """Read the model of a run folder.

    Raises:
        DataError: If the folder contains no trained molecule model, or a damaged one.
        CheckpointError: If its weights are damaged.
    """
    files = RunFiles(folder)
    described = files.describe(TASK, "molecule model", _Described)
    model = files.load_model(lambda: GraphEnsemble(described.model, described.members))
    trained = TrainedMolecule(model, described.targets, described.reading, described.features, None)
    if not described.targets.is_regression:
        return trained
    uncertainty = Uncertainty.read(files, model, len(described.targets.names))
    return replace(trained, uncertainty=uncertainty)
