"""The estimators with split conformal prediction, see ``conformal``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from representer.errors import ArgumentError
from representer.estimators import conformal
from representer.estimators.conformal import Conformal, calibration_rows
from representer.estimators.network_estimator import NetworkEstimator
from representer.estimators.report_page import results_of
from representer.estimators.targets import Numbers, Target
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder

LabeledObjects = tuple[Sequence[Any], NDArray[Any]]
CALIBRATION = "calibration"  # the name of the part


class ConformalEstimator(NetworkEstimator):
    """The base of estimators whose parameter `conformal` asks for sets or intervals.

    Attributes:
        conformal_: The quantiles of the calibration scores; None without `conformal`.
    """

    conformal: float | None
    _results_of = staticmethod(results_of)
    target_: Any  # Classes, ClassTable or Numbers
    conformal_: Conformal | None = None

    @abstractmethod
    def _find_target(self, y: Any) -> Target:
        """Return what is predicted."""

    @abstractmethod
    def _conformal_scores(
        self, objects: Sequence[Any], values: NDArray[Any]
    ) -> list[NDArray[np.float64]]:
        """Return how badly the targets of some objects fit the predictions."""

    def _hold_out(
        self, objects: Sequence[Any], values: NDArray[Any], groups: Any, seed: int
    ) -> tuple[LabeledObjects, LabeledObjects, Any]:
        """Return the rows that remain, the calibration rows, and the groups that remain."""
        rows, held_out = calibration_rows(self.target_, values, groups, seed)
        rest, own = (([objects[i] for i in part], values[part]) for part in (rows, held_out))
        if isinstance(self.target_, Numbers) and not self.warm_start:  # its means are learned
            single = rest[1][:, 0] if self.target_.is_single else rest[1]
            self.target_ = self._find_target(single)
        return rest, own, None if groups is None else groups[rows]

    def _calibrate(self, run: RunFolder, part: LabeledObjects | None) -> None:
        """Find the quantiles of the calibration part, or forget them without one."""
        self.conformal_ = None
        if part is not None and self.conformal is not None:
            self.conformal_ = Conformal.fit(self.conformal, self._conformal_scores(*part))
            self.conformal_.write(run)

    def _fitted_conformal(self) -> Conformal:
        """Return the quantiles.

        Raises:
            ArgumentError: The estimator was fitted without.
        """
        check_is_fitted(self)
        if self.conformal_ is None:
            expected = "a level such as 0.9, set before `fit`"
            raise ArgumentError("conformal", self.conformal, expected)
        return self.conformal_

    def _save_fitted(self, run: RunFolder) -> None:
        super()._save_fitted(run)
        if self.conformal_ is not None:
            self.conformal_.write(run)

    def _load_fitted(self, files: RunFiles) -> None:
        super()._load_fitted(files)
        self.conformal_ = Conformal.read(files) if files.has(conformal.FILE) else None
