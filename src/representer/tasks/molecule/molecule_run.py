"""Write and load the run folder of a molecule model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from representer.errors import DataError
from representer.models import GraphEnsemble, GraphRegressorConfig, to_dict
from representer.storage.run_files import MODEL, RunFiles, require_finite
from representer.storage.run_folder import RunFolder
from representer.tasks.molecule.molecule_config import FEATURES, MoleculeConfig, MoleculeReading
from representer.tasks.molecule.molecule_data import MoleculeData
from representer.tasks.molecule.molecule_gp import FILE as GP
from representer.tasks.molecule.molecule_gp import MOST, LastLayerGP, fit_gp
from representer.tasks.molecule.molecule_mixture import gp_weights, mixture
from representer.tasks.molecule.molecule_model import layers_and_outputs_of, outputs_of
from representer.tasks.molecule.molecule_predictions import Predictions
from representer.tasks.molecule.molecule_targets import Targets
from representer.tasks.molecule.molecule_uncertainty import Calibration, calibrate
from representer.tasks.options import as_yaml
from representer.tasks.table_file import as_csv

TASK = "molecule"
NAMES = {
    "wl": "WL kernel network", "random-walk": "random-walk kernel network", "gine": "GINE"
}  # fmt: skip
CALIBRATION = "uncertainty.json"


@dataclass(frozen=True)
class TrainedMolecule:
    """A trained model with everything that prediction needs.

    Attributes:
        model: The ensemble, in evaluation mode.
        targets: The targets.
        reading: Columns of the training data.
        features: Number of atom features.
        calibration: Calibration of the uncertainties; None for a classification.
        gp: Gaussian process on the last layers; None if there are too many molecules.
        parts: Weight of the Gaussian process for each target.
    """

    model: GraphEnsemble
    targets: Targets
    reading: MoleculeReading
    features: int
    calibration: Calibration | None
    gp: LastLayerGP | None = None
    parts: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """Name of the model."""
        members = len(self.model.members)
        end = f", mean of {members}" if members > 1 else ""
        end = f"{end} and a Gaussian process" if self.gp is not None else end
        return NAMES[self.model.config.network] + end

    def mean(self, graphs: Sequence[Any]) -> NDArray[np.float64]:
        """Return the mean prediction of the members of a regression ``(N, K)``."""
        return self.targets.in_unit(outputs_of(self.model, graphs)).mean(0)

    def predict(self, graphs: Sequence[Any]) -> Predictions:
        """Return the predictions for molecules."""
        if self.calibration is None:
            outputs = outputs_of(self.model, graphs)
            require_finite(self.name, outputs)
            return Predictions(self.name, probabilities=self.targets.probabilities(outputs))
        numbers, variances = _numbers(self, graphs)
        return Predictions(
            self.name, numbers=numbers, deviations=self.calibration.deviations(variances)
        )


def calibrated(model: GraphEnsemble, data: MoleculeData, config: MoleculeConfig) -> TrainedMolecule:
    """Return a trained model with its uncertainties calibrated on the validation molecules.

    For a regression, a Gaussian process on the last layers is added if the options say so and the
    training part is small enough.
    """
    plain = TrainedMolecule(model, data.targets, data.reading, config.features, None)
    if not data.targets.is_regression:
        return plain
    trained, truth = plain, data.valid.values
    if config.answers == "process" and len(data.train) <= MOST:
        layers, _ = layers_and_outputs_of(model, data.train.graphs)
        gp = fit_gp(layers, data.train.values, config.seed)
        layers, outputs = layers_and_outputs_of(model, data.valid.graphs)
        means = data.targets.in_unit(outputs).mean(0)
        parts = gp_weights(gp.predict(layers)[0], means, truth)
        trained = replace(plain, gp=gp, parts=parts)
    numbers, variances = _numbers(trained, data.valid.graphs)
    return replace(trained, calibration=calibrate(numbers, variances, truth))


def write_uncertainty(run: RunFolder, trained: TrainedMolecule) -> None:
    """Write calibration and Gaussian process."""
    if trained.calibration is None:
        return
    if trained.gp is not None:
        trained.gp.write(run)
    else:
        run.remove(GP)
    described = {"kind": "ensemble" if trained.gp is None else "process"}
    described |= {"parts": list(trained.parts), **trained.calibration.to_dict()}
    run.write_json(CALIBRATION, described)


def _numbers(
    trained: TrainedMolecule, graphs: Sequence[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return predictions and uncalibrated variances of a regression ``(N, K)``."""
    layers, outputs = layers_and_outputs_of(trained.model, graphs)
    require_finite(trained.name, layers)
    require_finite(trained.name, outputs)
    found = trained.targets.in_unit(outputs)
    networks = found.mean(0), found.var(0)
    if trained.gp is None:
        return networks
    return mixture(trained.parts, trained.gp.predict(layers), networks)


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


@dataclass(frozen=True)
class _Uncertainty:
    """uncertainty.json of a regression."""

    kind: Literal["ensemble", "process"]
    scales: tuple[float, ...]
    noises: tuple[float, ...]
    parts: tuple[float, ...] | None = None


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
    return _with_uncertainty(trained, files) if described.targets.is_regression else trained


def _with_uncertainty(trained: TrainedMolecule, files: RunFiles) -> TrainedMolecule:
    """Read what `write_uncertainty` wrote when the training had come to its end."""
    targets = len(trained.targets.names)
    if not files.has(CALIBRATION):
        return replace(trained, calibration=Calibration((1.0,) * targets, (0.0,) * targets))
    described = files.read(CALIBRATION, _Uncertainty)
    found, parts = Calibration(described.scales, described.noises), described.parts or ()
    if described.kind == "ensemble":
        files.parsed(CALIBRATION, lambda: _require_numbers([found.scales, found.noises], targets))
        return replace(trained, calibration=found)
    if described.parts is None:
        problem = "is of an older version, whose Gaussian process was another"
        fix = "Give the command of `fit molecule` again, with --resume."
        raise DataError(problem, file=files.folder / CALIBRATION, fix=fix)
    files.parsed(CALIBRATION, lambda: _require_numbers([found.scales, found.noises], targets))
    files.parsed(CALIBRATION, lambda: _require_numbers([parts], targets, most=1.0))
    width = trained.model.config.hidden_size * len(trained.model.members)
    gp = LastLayerGP.read(files, width, targets)
    return replace(trained, calibration=found, gp=gp, parts=parts)


def _require_numbers(rows: list[tuple[float, ...]], targets: int, most: float = math.inf) -> None:
    numbers = np.asarray(rows, dtype=np.float64) if {*map(len, rows)} == {targets} else None
    if numbers is None:
        raise ValueError("numbers of other targets")
    if not ((numbers >= 0) & (numbers <= most)).all():
        raise ValueError("numbers out of their range")
