"""Several labels an object as a target: each label is there or not, by a threshold of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from representer.errors import DataError
from representer.report.page import Predictions

PRIOR = 2.0  # errors that the usual threshold, 0.5, has less where a label is tuned on few examples

_SETS = list, tuple, set, frozenset


@dataclass(frozen=True)
class LabelSets:
    """Labels of which an object has any number."""

    labels: tuple[Any, ...]
    is_table: bool

    unit: ClassVar[tuple[float, float]] = (1.0, 0.0)

    @classmethod
    def find(cls, y: Any) -> LabelSets:
        """Return the labels of lists of labels, or of the columns of indicators ``(N, K)``."""
        is_table = _is_table(y)
        distinct: Iterable[Any] = range(np.asarray(y).shape[1]) if is_table else {
            label for row, labels in enumerate(y) for label in _labels(labels, row)
        }  # fmt: skip
        labels = sorted(distinct, key=lambda label: (type(label).__name__, label))
        target = cls(tuple(labels), is_table)
        if target.width < 2:
            problem = f"y has {target.width} labels; multilabel=True needs at least two"
            raise DataError(problem, fix="Leave out multilabel for one label an object.")
        counts = target.encode(y).sum(0)
        for number in np.flatnonzero((counts == 0) | (counts == len(y)))[:1]:
            share = "none" if counts[number] == 0 else "all"
            problem = f"{share} of the {len(y)} objects have the label {target.labels[number]!r}"
            raise DataError(problem, fix="Leave this label out.")
        return target

    @property
    def width(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def names(self) -> tuple[Any, ...]:
        """The labels, under the name that classes have."""
        return self.labels

    @cached_property
    def _numbers(self) -> Mapping[Any, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def encode(self, y: Any) -> NDArray[np.float64]:
        """Return 1 for each label of an object and 0 for the others ``(N, K)``."""
        if self.is_table:
            return self._indicators(y)
        result = np.zeros((len(y), self.width))
        for row, labels in enumerate(y):
            for label in _labels(labels, row):
                if label not in self._numbers:
                    listed = ", ".join(map(repr, self.labels[:6]))
                    more = ", ..." if self.width > 6 else ""
                    raise DataError(f"y[{row}] has {label!r}; the labels are {listed}{more}")
                result[row, self._numbers[label]] = 1.0
        return result

    def _indicators(self, y: Any) -> NDArray[np.float64]:
        table, fix = np.asarray(y), "Pass indicators, or a list of labels for each object."
        if table.ndim != 2 or table.shape[1] != self.width:
            raise DataError(f"y has shape {table.shape}; expected (N, {self.width})", fix=fix)
        for row, column in np.argwhere((table != 0) & (table != 1))[:1]:
            problem = f"y[{row}, {column}] is {table[row, column]}; expected 0 or 1"
            raise DataError(problem, fix=fix)
        return table.astype(np.float64)

    def loss(self, outputs: Tensor, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the binary cross-entropy, summed over labels and members, weighted ``(N, 1)``."""
        members = outputs if outputs.dim() == 3 else outputs[None]
        truth = values.to(members).expand_as(members)
        losses = F.binary_cross_entropy_with_logits(members, truth, reduction="none").sum(-1)
        losses = losses if weights is None else losses * weights[:, 0].to(losses)
        return losses.mean(1).sum()

    def probabilities(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each label, averaged over members ``(N, K)``."""
        chances = torch.from_numpy(outputs).sigmoid().numpy()
        return chances.mean(0) if chances.ndim == 3 else chances

    def metrics(
        self, outputs: NDArray[np.float64], values: NDArray[Any],
        weights: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """Return ``valid_loss``, as `loss`, and ``valid_accuracy`` of all single labels."""
        chances = np.clip(self.probabilities(outputs), 1e-12, 1 - 1e-12)
        losses = -np.log(np.where(values > 0, chances, 1 - chances)).sum(1)
        right = ((chances > 0.5) == (values > 0)).mean(1)
        return {"valid_loss": mean_of(losses, weights), "valid_accuracy": mean_of(right, weights)}

    def thresholds(
        self, outputs: NDArray[np.float64], values: NDArray[np.float64]
    ) -> tuple[float, ...]:
        """Return the threshold of the probability of each label with the largest F1.

        ``outputs`` are scores of objects that trained nothing ``(N, K)``.
        """
        chances = self.probabilities(outputs)
        return tuple(map(_threshold, chances.T, values.T))

    def predicted(self, are_there: NDArray[np.bool_]) -> NDArray[Any]:
        """Return indicators ``(N, K)``, or tuples of labels ``(N,)``, as y was given."""
        if self.is_table:
            return are_there.astype(np.int64)
        result = np.empty(len(are_there), dtype=object)
        for row, each in enumerate(are_there):
            result[row] = tuple(self.labels[number] for number in np.flatnonzero(each))
        return result


def mean_of(values: Any, weights: NDArray[np.float64] | None) -> float:
    """Return the mean of values ``(N,)`` with weights ``(N, 1)``; without weight, the plain one."""
    if weights is None or not weights.any():
        return float(np.mean(values))
    return float(np.average(values, weights=weights[:, 0]))


def f1_scores(truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, float]:
    """Return the F1 of all labels together, ``micro_f1``, and the mean of all, ``macro_f1``."""
    from sklearn.metrics import f1_score  # as long to import as some predictions take

    score: Any = f1_score  # its type hints lack numbers for a division by 0
    return {
        f"{name}_f1": float(score(truth, predicted, average=name, zero_division=0.0))
        for name in ("micro", "macro")
    }


def _threshold(chances: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Return the threshold with the largest F1, near 0.5 where this is equal."""
    # quantiles, so that the table of candidates and objects grows with the objects alone
    candidates = np.unique([*np.quantile(chances, np.linspace(0, 1, 401)), 0.5])
    are_there, is_true = chances > candidates[:, None], truth > 0
    right, wrong = (are_there & is_true).sum(1), (are_there != is_true).sum(1)
    scores = 2 * right / np.maximum(2 * right + wrong + PRIOR * (candidates != 0.5), 1)
    best = candidates[scores == scores.max()]
    return float(best[np.abs(best - 0.5).argmin()])


def _is_table(y: Any) -> bool:
    """Return True for indicators: an array or table of two axes, or rows of 0 and 1 alone."""
    if len(getattr(y, "shape", ())) == 2:
        return True
    if not len(y) or not all(isinstance(row, list | tuple | np.ndarray) for row in y):
        return False
    is_even = len({len(row) for row in y}) == 1 and len(y[0]) > 1
    return is_even and all(type(v) is not str and v in (0, 1) for row in y for v in row)


def _labels(labels: Any, row: int) -> Sequence[Any]:
    """Return the labels of one object."""
    if isinstance(labels, np.ndarray):
        labels = labels.tolist()
    if not isinstance(labels, _SETS):
        problem = f"y[{row}] is {labels!r:.40} of type {type(labels).__name__}"
        raise DataError(problem, fix="Pass a list of labels for each object, or indicators.")
    for label in labels:
        if isinstance(label, (*_SETS, dict)) or label is None:
            problem = f"y[{row}] has {label!r:.40}, which is no label"
            raise DataError(problem, fix="Labels are texts or numbers; hierarchies are left out.")
    return list(labels)


def sets_of(
    target: LabelSets, predictions: Sequence[Predictions]
) -> list[tuple[list[str], dict[str, float]]]:
    """Return the predicted labels of each object, and the probability of every label."""
    names, sets = [*map(str, target.labels)], []
    for row in range(len(predictions[0].values)):
        cells = [(column.values[row], column.probabilities) for column in predictions]
        there = [name for name, (value, _) in zip(names, cells, strict=True) if value]
        chances = {name: float(table[row, 1]) for name, (_, table) in zip(names, cells, strict=True)
                   if table is not None}  # fmt: skip
        sets.append((there, chances))
    return sets


def joined_labels(labels: Iterable[Any]) -> str:
    """Return the labels of an object as one text."""
    return ", ".join(map(str, labels)) or "no label"
