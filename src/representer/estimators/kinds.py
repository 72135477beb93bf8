"""The two kinds of estimators: classifiers and regressors."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from representer.estimators.base import Estimator
from representer.estimators.classes import Classes
from representer.estimators.targets import Numbers


class Classifier(ClassifierMixin, Estimator):
    """A classifier; fitted, it has ``classes_`` ``(C,)``."""

    target_: Classes

    def _find_target(self, y: Any) -> Classes:
        return Classes.find(y)

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of the columns of `predict_proba`."""
        names = np.empty(self.target_.width, dtype=object)
        names[:] = self.target_.names
        plain = np.asarray(self.target_.names) if len({*map(type, names)}) == 1 else names
        return plain if plain.shape == names.shape else names

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class ``(N, C)``."""
        outputs = self._predicted(X)
        return self.target_.probabilities(outputs)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each object ``(N,)``."""
        chances = self.predict_proba(X)
        return self.classes_[chances.argmax(axis=1)]


class Regressor(RegressorMixin, Estimator):
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
            return_std: Also return standard deviations of the same shape: those of the members'
                predictions and of the errors on the validation data, combined.
        """
        outputs = self._predicted(X)
        members = self.target_.in_unit(outputs if outputs.ndim == 3 else outputs[None])
        mean = self._shaped(members.mean(0))
        if not return_std:
            return mean
        best = min((row["valid_loss"] for row in self.history_), default=1.0)
        residual = best**0.5 * np.asarray(self.target_.scales)
        return mean, self._shaped(np.sqrt(members.var(0) + residual**2))

    def _shaped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values[:, 0] if self.target_.is_single else values
