"""Predictions of numbers with uncertainties: an ensemble, and a Gaussian process on its layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from representer.errors import DataError
from representer.estimators import last_layer_gp
from representer.estimators.calibration import Calibration, calibrate
from representer.estimators.graph_batches import layers_and_outputs_of
from representer.estimators.last_layer_gp import LastLayerGP, fit_gp
from representer.estimators.mixture import gp_weights, mixture
from representer.estimators.targets import Numbers
from representer.models import GraphEnsemble
from representer.storage.run_files import RunFiles, require_finite
from representer.storage.run_folder import RunFolder

FILE = "uncertainty.json"


@dataclass(frozen=True)
class Uncertainty:
    """The conversion of an ensemble's layers and outputs to predictions and deviations.

    Args:
        calibration: Calibration of the variances.
        gp: Gaussian process on the last layers; None if only the ensemble predicts.
        weights: Weight of the Gaussian process for each target.
    """

    calibration: Calibration
    gp: LastLayerGP | None = None
    weights: tuple[float, ...] = ()

    def predict(
        self, model: GraphEnsemble, target: Numbers, graphs: Sequence[Any], name: str = "model"
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return predictions and standard deviations ``(N, K)`` in the unit of the targets.

        Raises:
            CheckpointError: An output is not finite; the message names the model.
        """
        numbers, variances = self._uncalibrated(model, target, graphs, name)
        return numbers, self.calibration.deviations(variances)

    def _uncalibrated(
        self, model: GraphEnsemble, target: Numbers, graphs: Sequence[Any], name: str
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        layers, outputs = layers_and_outputs_of(model, graphs)
        require_finite(name, layers)
        require_finite(name, outputs)
        members = target.in_unit(outputs)
        networks = members.mean(0), members.var(0)
        if self.gp is None:
            return networks
        return mixture(self.weights, self.gp.predict(layers), networks)

    @classmethod
    def uncalibrated(cls, targets: int) -> Uncertainty:
        """Return the variances of the members as they are."""
        return cls(Calibration((1.0,) * targets, (0.0,) * targets))

    @classmethod
    def fit(
        cls,
        model: GraphEnsemble,
        target: Numbers,
        train: tuple[Sequence[Any], NDArray[np.float64]],
        valid: tuple[Sequence[Any], NDArray[np.float64]],
        *,
        has_gp: bool,
        seed: int,
        name: str = "model",
    ) -> Uncertainty:
        """Return uncertainties calibrated on the validation examples.

        Args:
            model: The trained ensemble.
            target: The targets.
            train: Graphs and values ``(N, K)`` for the Gaussian process.
            valid: Graphs and values for its weights and the calibration.
            has_gp: Add a Gaussian process if there are at most `last_layer_gp.MOST` examples, with
                values of every target.
            seed: Random seed of the Gaussian process.
            name: The model, for messages.
        """
        graphs, truth = valid
        result = cls.uncalibrated(target.width)
        is_known = not np.isnan(train[1]).all(0).any()
        if has_gp and is_known and len(train[0]) <= last_layer_gp.MOST:
            layers, _ = layers_and_outputs_of(model, train[0])
            gp = fit_gp(layers, train[1], seed)
            layers, outputs = layers_and_outputs_of(model, graphs)
            means = target.in_unit(outputs).mean(0)
            weights = gp_weights(gp.predict(layers)[0], means, truth)
            result = cls(result.calibration, gp, weights)
        numbers, variances = result._uncalibrated(model, target, graphs, name)
        return cls(calibrate(numbers, variances, truth), result.gp, result.weights)

    def write(self, run: RunFolder) -> None:
        """Write calibration and Gaussian process."""
        if self.gp is not None:
            self.gp.write(run)
        else:
            run.remove(last_layer_gp.FILE)
        described = {"kind": "ensemble" if self.gp is None else "process"}
        described |= {"parts": list(self.weights), **self.calibration.to_dict()}
        run.write_json(FILE, described)

    @classmethod
    def read(cls, files: RunFiles, model: GraphEnsemble, targets: int) -> Uncertainty:
        """Return what `write` wrote, or plain variances while training has not yet ended.

        Raises:
            DataError: A file is damaged, or from an older version.
            CheckpointError: The Gaussian process is damaged.
        """
        if not files.has(FILE):
            return cls.uncalibrated(targets)
        saved = files.read(FILE, _Saved)
        calibration, weights = Calibration(saved.scales, saved.noises), saved.parts or ()
        if saved.kind == "process" and saved.parts is None:
            problem = "is of an older version, whose Gaussian process was another"
            fix = "Give the command of `fit molecule` again, with --resume."
            raise DataError(problem, file=files.folder / FILE, fix=fix)
        numbers = [calibration.scales, calibration.noises]
        files.parsed(FILE, lambda: _require_numbers(numbers, targets))
        if saved.kind == "ensemble":
            return cls(calibration)
        files.parsed(FILE, lambda: _require_numbers([weights], targets, most=1.0))
        width = model.config.hidden_size * len(model.members)
        return cls(calibration, LastLayerGP.read(files, width, targets), weights)


@dataclass(frozen=True)
class _Saved:
    """uncertainty.json."""

    kind: Literal["ensemble", "process"]
    scales: tuple[float, ...]
    noises: tuple[float, ...]
    parts: tuple[float, ...] | None = None


def _require_numbers(rows: list[tuple[float, ...]], targets: int, most: float = math.inf) -> None:
    numbers = np.asarray(rows, dtype=np.float64) if {*map(len, rows)} == {targets} else None
    if numbers is None:
        raise ValueError("numbers of other targets")
    if not ((numbers >= 0) & (numbers <= most)).all():
        raise ValueError("numbers out of their range")
