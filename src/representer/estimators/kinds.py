"""The two kinds of estimators: classifiers and regressors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from representer.errors import DataError
from representer.estimators.calibration import UNCALIBRATED
from representer.estimators.classes import Classes, ClassTable, is_table
from representer.estimators.conformal import class_scores, number_scores
from representer.estimators.containers import as_sequence
from representer.estimators.supervised import SupervisedEstimator
from representer.estimators.targets import Numbers, checked_weights, require_same_length


class Classifier(ClassifierMixin, SupervisedEstimator):
    """A classifier of one target ``(N,)``, or of several ``(N, K)``.

    Fitted, it has ``classes_`` ``(C,)``; of several targets, a list of them.
    """

    target_: Classes | ClassTable

    def _find_target(self, y: Any) -> Classes | ClassTable:
        return ClassTable.find(y) if is_table(y) else Classes.find(y)

    @property
    def classes_(self) -> Any:
        """The labels, in the order of the columns of `predict_proba`."""
        if isinstance(self.target_, ClassTable):
            return [_as_array(column.names) for column in self.target_.columns]
        return _as_array(self.target_.names)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class ``(N, C)``; of several targets, a list of them."""
        outputs = self._predicted(X)
        return self.target_.probabilities(outputs)

    def _predicted(self, X: Any) -> NDArray[np.float64]:
        return np.concatenate([scores for scores, _ in self._checked_moments(X)], axis=1)

    def predict_set(self, X: Any) -> list[Any]:
        """Return the labels in the prediction set of each object, the most probable first.

        With the parameter `conformal`, the sets contain the true label with this probability,
        whatever the model; see ``estimators.conformal``. Where no label is probable enough, a set
        is empty.

        Returns:
            A tuple of labels for each object; of several targets, a list of them for each.

        Raises:
            ArgumentError: The estimator was fitted without `conformal`.
        """
        found = self._fitted_conformal()
        chances = self.predict_proba(X)
        is_single = isinstance(self.target_, Classes)
        tables = [chances] if is_single else chances
        columns = self.target_.columns if isinstance(self.target_, ClassTable) else (self.target_,)
        sets = [
            [
                tuple(column.names[k] for k in np.argsort(-p, kind="stable") if inside[k])
                for p, inside in zip(table, own, strict=True)
            ]
            for column, table, own in zip(columns, tables, found.sets(tables), strict=True)
        ]
        return sets[0] if is_single else sets

    def _conformal_scores(
        self, objects: Sequence[Any], values: NDArray[Any]
    ) -> list[NDArray[np.float64]]:
        chances = self.predict_proba(objects)
        return class_scores([chances] if isinstance(self.target_, Classes) else chances, values)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each object ``(N,)`` or ``(N, K)``."""
        chances, classes = self.predict_proba(X), self.classes_
        if isinstance(self.target_, Classes):
            return classes[chances.argmax(axis=1)]
        columns = [own[p.argmax(axis=1)] for own, p in zip(classes, chances, strict=True)]
        kinds = {column.dtype.kind for column in columns}
        result = np.empty((len(columns[0]), len(columns)), dtype=object)
        for k, column in enumerate(columns):
            result[:, k] = column
        return result.astype(np.result_type(*columns)) if len(kinds) == 1 else result

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, of several targets over all known labels."""
        check_is_fitted(self)
        y = as_sequence(y)
        if isinstance(self.target_, Classes):
            truth, chances = self.target_.numbers(y), self.predict_proba(X)
            require_same_length(chances, truth)
            weights = _score_weights(sample_weight, truth)
            return float(np.average(chances.argmax(axis=1) == truth, weights=weights))
        values = self.target_.numbers(y)
        predicted = np.stack([p.argmax(axis=1) for p in self.predict_proba(X)], axis=1)
        require_same_length(predicted, values)
        weights = _score_weights(sample_weight, values)[:, None] * _are_known(values)
        return float(np.average(predicted == values, weights=weights))


def _as_array(names: tuple[Any, ...]) -> NDArray[Any]:
    labels = np.empty(len(names), dtype=object)
    labels[:] = names
    plain = np.asarray(names) if len({*map(type, names)}) == 1 else labels
    return plain if plain.shape == labels.shape else labels


def _score_weights(sample_weight: Any, truth: NDArray[Any]) -> NDArray[np.float64]:
    """Return the weight of each row ``(N,)``, 1 by default."""
    return np.ones(len(truth)) if sample_weight is None else checked_weights(sample_weight, truth)


def _are_known(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where there are values to score with, or raise a `DataError` if nowhere."""
    known = ~np.isnan(values)
    if not known.any():
        raise DataError("y has no known value", fix="Score with rows whose target is known.")
    return known


class Regressor(RegressorMixin, SupervisedEstimator):
    """A regressor."""

    target_: Numbers

    def _find_target(self, y: Any) -> Numbers:
        return Numbers.find(y)

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> NDArray[np.float64]: ...

    @overload
    def predict(
        self, X: Any, return_std: Literal[True]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the numbers predicted for each object ``(N,)`` or ``(N, K)``.

        Args:
            X: The objects.
            return_std: Also return standard deviations of the same shape, which mix those of the
                parts and are calibrated on the validation data.
        """
        found, means, deviations = self._checked_moments(X), [], []
        units = zip(self.target_.means, self.target_.scales, strict=True)
        for moments, (mean, scale), own in zip(found, units, self.targets_, strict=True):
            left = next(
                iter(own.calibrations.values()), UNCALIBRATED
            )  # of a half without the other
            calibration = own.calibrations.get(self.answer, left)
            means.append(mean + scale * moments[0])
            deviations.append(calibration.deviations(scale**2 * moments[1]))
        mean = self._shaped(np.concatenate(means, axis=1))
        return (mean, self._shaped(np.concatenate(deviations, axis=1))) if return_std else mean

    def predict_interval(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and the upper bound of an interval for each object, as `predict` does.

        With the parameter `conformal`, the intervals contain the true number with this
        probability, whatever the model; see ``estimators.conformal``.

        Raises:
            ArgumentError: The estimator was fitted without `conformal`.
        """
        found = self._fitted_conformal()
        mean, deviation = self.predict(X, return_std=True)
        half = found.half_widths(deviation.reshape(len(deviation), -1)).reshape(mean.shape)
        return mean - half, mean + half

    def _conformal_scores(
        self, objects: Sequence[Any], values: NDArray[Any]
    ) -> list[NDArray[np.float64]]:
        tables = self.predict(objects, return_std=True)
        means, deviations = (own.reshape(values.shape) for own in tables)
        return number_scores(means, deviations, values)

    def _shaped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values[:, 0] if self.target_.is_single else values

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the known numbers, the mean over the targets that have some."""
        check_is_fitted(self)
        truth, predicted = self.target_.encode(as_sequence(y)), self.predict(X)
        require_same_length(predicted, truth)
        predicted = predicted.reshape(truth.shape)
        weights = _score_weights(sample_weight, truth)
        scores, are_known = [], _are_known(truth)
        for k in np.flatnonzero(are_known.any(axis=0)):
            rows = are_known[:, k]
            scores.append(r2_score(truth[rows, k], predicted[rows, k], sample_weight=weights[rows]))
        return float(np.mean(scores))
