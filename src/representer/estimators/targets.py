"""The targets of estimators: classes or numbers, with their loss and validation metrics.

A network returns ``(B, W)``, or ``(M, B, W)`` for M members; W is `width`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from representer.data.splits import Splits
from representer.data.tables.columns import alike
from representer.errors import ArgumentError, DataError
from representer.estimators.label_sets import LabelSets, mean_of
from representer.kernels.sequences import as_sequence, column_of

# Class labels as targets, of one column or several; see `targets`.


@dataclass(frozen=True)
class Classes:
    """Labels of one target."""

    names: tuple[Any, ...]

    @classmethod
    def find(cls, y: Any) -> Classes:
        """Return the classes of labels, sorted if they can be.

        Raises:
            DataError: A label is missing or not hashable, occurs once, or there is only one class;
                the message names the row.
        """
        return _classes(dict(enumerate(_label_column(y))))

    @property
    def width(self) -> int:
        """Number of classes."""
        return len(self.names)

    unit: ClassVar[tuple[float, float]] = (1.0, 0.0)

    def encode(self, y: Any) -> NDArray[np.int64]:
        """Return the number of each label ``(N,)``.

        Raises:
            DataError: A label is not one of the classes.
        """
        labels = enumerate(_label_column(y))
        return np.array([self.number(label, str(row)) for row, label in labels], np.int64)

    def numbers(self, y: Any) -> NDArray[np.int64]:
        """Return the number of each label ``(N,)``, -1 for one that training did not have.

        Raises:
            DataError: A label is of another type than the classes.
        """
        labels = enumerate(_label_column(y))
        return np.array([self.known_number(label, str(row)) for row, label in labels], int)

    def known_number(self, label: Any, place: str) -> int:
        """Return the number of a label, -1 for one that training did not have; see `number`."""
        value = _label(label, place)
        is_new = value not in self._numbers and type(value) in self._kinds
        return -1 if is_new else self.number(value, place)

    def number(self, label: Any, place: str) -> int:
        """Return the number of a label; the place in y is for messages, see `encode`."""
        value = _label(label, place)
        number = self._numbers.get(value)
        if number is None:
            shown = ", ".join(map(repr, self.names[:6])) + (", ..." if self.width > 6 else "")
            raise DataError(f"y[{place}] is {value!r}; the classes are {shown}")
        return number

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def _kinds(self) -> set[type[Any]]:
        return {*map(type, self.names)}

    def loss(self, outputs: Tensor, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the mean cross-entropy, weighted ``(N, 1)`` and summed over members."""
        members = outputs if outputs.dim() == 3 else outputs[None]
        if weights is None:
            return sum((F.cross_entropy(m, values) for m in members), members.new_zeros(()))
        losses = [F.cross_entropy(m, values, reduction="none") for m in members]
        return (torch.stack(losses) * weights[:, 0].to(members)).mean(1).sum()

    def probabilities(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each class, averaged over members ``(N, C)``."""
        chances = torch.from_numpy(outputs).softmax(-1).numpy()
        return chances.mean(0) if chances.ndim == 3 else chances

    def metrics(
        self, outputs: NDArray[np.float64], values: NDArray[Any],
        weights: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """Return ``valid_loss``, the mean negative log probability, and ``valid_accuracy``.

        Both are means with weights ``(N, 1)``, if there are any.
        """
        chances = self.probabilities(outputs)
        logs = np.log(np.clip(chances[np.arange(len(values)), values], 1e-12, None))
        right = chances.argmax(axis=1) == values
        loss, accuracy = -mean_of(logs, weights), mean_of(right, weights)
        return {"valid_loss": loss, "valid_accuracy": accuracy}


@dataclass(frozen=True)
class ClassTable:
    """Labels of several targets, NaN or None where unknown."""

    columns: tuple[Classes, ...]

    @classmethod
    def find(cls, y: Any) -> ClassTable:
        """Return the classes of each column of labels ``(N, K)``.

        Raises:
            DataError: A target has fewer than two classes, or one of its labels occurs once.
        """
        table = _label_table(y)
        columns = []
        for k in range(table.shape[1]):
            rows = [row for row, label in enumerate(table[:, k]) if not _is_missing(label)]
            columns.append(
                _classes({row: table[row, k] for row in rows}, f", {k}", f" in column {k}")
            )
        return cls(tuple(columns))

    @property
    def widths(self) -> list[int]:
        """Number of classes of each target."""
        return [column.width for column in self.columns]

    @property
    def width(self) -> int:
        """Number of classes of all targets together."""
        return sum(self.widths)

    unit: ClassVar[tuple[float, float]] = (1.0, 0.0)

    def encode(self, y: Any) -> NDArray[np.float64]:
        """Return the number of each label ``(N, K)``, NaN where unknown.

        Raises:
            DataError: A label is not one of the classes, or the number of targets differs.
        """
        return self._encoded(y, Classes.number)

    def numbers(self, y: Any) -> NDArray[np.float64]:
        """Return the number of each label as `encode` does, -1 for one that training did not have.

        Raises:
            DataError: A label is of another type than the classes, or there are more or fewer
                targets.
        """
        return self._encoded(y, Classes.known_number)

    def _encoded(self, y: Any, one: Callable[[Classes, Any, str], int]) -> NDArray[np.float64]:
        table = _label_table(y)
        if table.ndim != 2 or table.shape[1] != len(self.columns):
            raise DataError(f"y has shape {table.shape}; expected (N, {len(self.columns)})")
        result = np.full(table.shape, np.nan)
        for (row, k), label in np.ndenumerate(table):
            if not _is_missing(label):
                result[row, k] = one(self.columns[k], label, f"{row}, {k}")
        return result

    def loss(self, outputs: Tensor, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the mean cross-entropy of all known labels, summed over members.

        The labels may have weights ``(N, K)``.
        """
        members = outputs if outputs.dim() == 3 else outputs[None]
        total, count = members.new_zeros(()), 0
        for k, logits in enumerate(members.split(self.widths, dim=-1)):
            is_known = ~values[:, k].isnan()
            wanted = values[is_known, k].long()
            for member in logits[:, is_known]:
                losses = F.cross_entropy(member, wanted, reduction="none")
                if weights is not None:
                    losses = losses * weights[is_known, k].to(losses)
                total = total + losses.sum()
            count += len(wanted)
        return total / max(count, 1)

    def probabilities(self, outputs: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return the class probabilities of each target, averaged over members ``(N, C)``."""
        parts = np.split(outputs, np.cumsum(self.widths)[:-1], axis=-1)
        return [column.probabilities(z) for column, z in zip(self.columns, parts, strict=True)]

    def metrics(
        self, outputs: NDArray[np.float64], values: NDArray[Any],
        weights: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """Return ``valid_loss`` and ``valid_accuracy`` over all known labels, see `Classes`."""
        logs, right, all_weights = [], [], []
        for k, chances in enumerate(self.probabilities(outputs)):
            rows = np.flatnonzero(~np.isnan(values[:, k]))
            truth = values[rows, k].astype(int)
            logs += np.log(np.clip(chances[rows, truth], 1e-12, None)).tolist()
            right += (chances[rows].argmax(1) == truth).tolist()
            all_weights += [] if weights is None else weights[rows, k].tolist()
        if not right:
            return {"valid_loss": float("nan"), "valid_accuracy": float("nan")}
        of_rows = np.array(all_weights)[:, None] if all_weights else None
        return {"valid_loss": -mean_of(logs, of_rows), "valid_accuracy": mean_of(right, of_rows)}


_SMALLEST = 1e-100  # difference of numbers whose squares are still numbers
SEVERAL = 20  # labels that all differ are no classes


def _classes(labels: dict[int, Any], column: str = "", where: str = "") -> Classes:
    """Return the classes of the labels of some rows, see `Classes.find`."""
    rows: dict[Any, list[int]] = {}
    for row, label in labels.items():
        rows.setdefault(_label(label, f"{row}{column}"), []).append(row)
    if len(rows) < 2:
        only = f"one class, {next(iter(rows))!r}" if rows else "no label"
        problem = f"y has {only}{where}; a classifier needs at least two classes"
        raise DataError(problem, fix="Add examples of another class.")
    for label, rows_of in rows.items():
        if len(rows_of) == 1 and isinstance(label, float) and not label.is_integer():
            name = f"y[{rows_of[0]}{column}]"
            problem = f"Unknown label type: {name} is {label!r}, a continuous number"
            raise DataError(problem, fix="Use a regressor.")
    if len(rows) == len(labels) >= SEVERAL:
        problem = f"all {len(rows)} labels of y differ{where}; classes have several examples"
        raise DataError(problem, fix="Use a regressor for numbers.")
    if note := alike(rows):
        warnings.warn(note, stacklevel=2)
    try:
        return Classes(tuple(sorted(rows)))
    except TypeError:  # labels of several types
        return Classes(tuple(sorted(rows, key=lambda label: (type(label).__name__, str(label)))))


def is_table(y: Any) -> bool:
    """Return True if there are several labels per object: an array (N, K), or lists."""
    if hasattr(y, "ndim"):
        return y.ndim == 2 and y.shape[1] != 1
    is_listed = len(y) > 0 and all(isinstance(labels, list) for labels in y)
    return is_listed and any(len(labels) != 1 for labels in y)


def _label_column(y: Any) -> Any:
    """Return labels ``(N,)``, also of a column ``(N, 1)`` as ``df[["label"]]`` is one."""
    if getattr(y, "ndim", 1) == 2:
        return np.asarray(y, dtype=object)[:, 0] if y.shape[1] == 1 else y
    is_column = len(y) > 0 and all(isinstance(label, list) and len(label) == 1 for label in y)
    return [label for (label,) in y] if is_column else y


def _label_table(y: Any) -> NDArray[Any]:
    if hasattr(y, "ndim"):
        return np.asarray(y, dtype=object)
    rows = [labels if isinstance(labels, Sequence | np.ndarray) else [labels] for labels in y]
    for row, labels in enumerate(rows):
        if len(labels) != len(rows[0]):
            problem = f"y[{row}] has {len(labels)} labels; expected {len(rows[0])}"
            raise DataError(problem, fix="Use None for unknown labels.")
    table = np.empty((len(rows), len(rows[0]) if rows else 0), dtype=object)
    for row, labels in enumerate(rows):
        for k, label in enumerate(labels):
            table[row, k] = label
    return table


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _label(label: Any, place: str) -> Any:
    """Return a label as a plain Python value; times of NumPy have none of the same precision."""
    is_time = isinstance(label, np.datetime64 | np.timedelta64)
    is_scalar = isinstance(label, np.generic) or (isinstance(label, Tensor) and label.numel() == 1)
    value = label.item() if is_scalar and not is_time else label
    if value is None or ((isinstance(value, float) or is_time) and value != value):
        raise DataError(f"y[{place}] is {label!r}: a missing label", fix="Leave this row out.")
    try:
        hash(value)
    except TypeError:
        raise DataError(f"y[{place}] is a {type(label).__name__}; expected a label") from None
    return value


def pair_of(validation: Any) -> tuple[Any, Any]:
    """Return objects and targets of validation data."""
    if not isinstance(validation, (tuple, list)) or len(validation) != 2:
        raise DataError(f"validation is of type {type(validation).__name__}; expected (X, y)")
    return validation[0], validation[1]


@dataclass(frozen=True)
class Numbers:
    """One or several numbers, standardized in training; NaN where unknown.

    Args:
        means: Subtracted in training ``(K,)``.
        scales: Divided by in training ``(K,)``.
        is_single: True if the targets had one dimension ``(N,)``.
    """

    means: tuple[float, ...]
    scales: tuple[float, ...]
    is_single: bool = True

    @classmethod
    def find(cls, y: Any) -> Numbers:
        """Return the targets with the means and scales of known values ``(N,)`` or ``(N, K)``."""
        values = _as_numbers(y)
        for k in range(values.shape[1]):
            present = values[~np.isnan(values[:, k]), k]
            name = "y" if np.ndim(y) == 1 else f"y[:, {k}]"
            if len(present) < 2 or np.ptp(present) == 0:
                what = f"the one value {present[0]:g}" if len(present) else "no value"
                raise DataError(f"{name} has {what}; there is nothing to learn")
            size, spread = np.abs(present).max(), np.ptp(present)
            if size > 1 / _SMALLEST or spread < _SMALLEST:
                shown = f"values of size {size:g} that differ by {spread:g}, whose squares"
                raise DataError(f"{name} has {shown} overflow", fix="Give them another unit.")
        means, scales = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        return cls(tuple(means.tolist()), tuple(scales.tolist()), np.ndim(y) == 1)

    @property
    def width(self) -> int:
        """Number of targets."""
        return len(self.means)

    @property
    def unit(self) -> tuple[float, float]:
        """Scale and mean of the first target."""
        return self.scales[0], self.means[0]

    def encode(self, y: Any) -> NDArray[np.float64]:
        """Return the numbers ``(N, K)`` in their unit."""
        values = _as_numbers(y)
        if values.shape[1] != self.width:
            expected = "(N,)" if self.is_single else f"(N, {self.width})"
            raise DataError(f"y has shape {np.shape(y)}; expected {expected}")
        return values

    def loss(self, outputs: Tensor, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the mean squared error in standardized units, summed over members.

        The numbers may have weights ``(N, K)``.
        """
        members = outputs if outputs.dim() == 3 else outputs[None]
        is_known = ~values.isnan()
        means, scales = (values.new_tensor(moments) for moments in (self.means, self.scales))
        # in float64, since a mean may be large beside the scale, as of dates in seconds
        wanted = torch.where(is_known, (values - means) / scales, 0.0).to(members)
        errors = (members - wanted).square() * is_known
        errors = errors if weights is None else errors * weights.to(errors)
        return errors.sum() / is_known.sum().clamp(min=1)

    def in_unit(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return outputs in the unit of the targets."""
        return outputs * np.asarray(self.scales) + np.asarray(self.means)

    def metrics(
        self, outputs: NDArray[np.float64], values: NDArray[Any],
        weights: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """Return ``valid_loss`` in standardized units and, for one target, ``valid_rmse``."""
        members = outputs if outputs.ndim == 3 else outputs[None]
        errors = (self.in_unit(members).mean(0) - values) / np.asarray(self.scales)
        loss = float(np.nanmean(errors**2))
        if weights is not None and (of_known := weights[~np.isnan(errors)]).any():
            loss = float(np.average(errors[~np.isnan(errors)] ** 2, weights=of_known))
        rmse = {"valid_rmse": loss**0.5 * self.scales[0]} if self.width == 1 else {}
        return {"valid_loss": loss, **rmse}


Column = Classes | LabelSets | Numbers
Target = Column | ClassTable
Moments = tuple[NDArray[np.float64], NDArray[np.float64]]  # scores and their variances (N, W)


@dataclass(frozen=True)
class Weighted:
    """A target in whose losses the objects have weights ``(N, 1)``."""

    target: Column
    weights: NDArray[np.float64]

    def loss(self, outputs: Tensor, values: Tensor) -> Tensor:
        """Return the weighted loss of the target."""
        return self.target.loss(outputs, values, torch.from_numpy(self.weights))

    def metrics(self, outputs: NDArray[np.float64], values: NDArray[Any]) -> dict[str, float]:
        """Return the weighted metrics of the target."""
        return self.target.metrics(outputs, values, self.weights)


def columns_of(target: Target) -> list[Column]:
    """Return each target by itself."""
    if isinstance(target, Classes | LabelSets):
        return [target]
    if isinstance(target, ClassTable):
        return list(target.columns)
    pairs = zip(target.means, target.scales, strict=True)
    return [Numbers((mean,), (scale,), target.is_single) for mean, scale in pairs]


def classes_of(target: Target) -> list[list[str]]:
    """Return the names of the classes of each target as text; none for numbers."""
    columns = columns_of(target)
    if isinstance(target, LabelSets):
        return [["no", "yes"] for _ in target.labels]
    return [[str(name) for name in c.names] for c in columns if isinstance(c, Classes)]


def known_values(target: Target, values: NDArray[Any], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows with a value of a target, and these values as it encodes them."""
    if isinstance(target, Classes | LabelSets):
        return np.arange(len(values)), values
    rows = np.flatnonzero(~np.isnan(values[:, k]))
    present = values[rows, k]
    return rows, present[:, None] if isinstance(target, Numbers) else present.astype(np.int64)


def splits_of(
    target: Target, values: NDArray[Any], groups: Any = None, digests: Any = ()
) -> Splits:
    """Return the rows of encoded targets, to be divided; of several targets, no classes count."""
    if isinstance(target, Classes):
        return Splits(len(values), values, groups, digests, target.names)
    is_unknown: Any = np.isnan(values.reshape(len(values), -1).astype(float)).all(axis=1)
    return Splits(len(values), None, groups, digests, is_known=~is_unknown)


def example_weights(
    target: Target, values: NDArray[Any], class_weight: Any, sample_weight: Any
) -> NDArray[np.float64] | None:
    """Return the weight of each value ``(N, K)``, with the mean 1 in each target.

    A class weight is ``"balanced"``, or one for each class by its label, as in scikit-learn. There
    are none if all are equal because neither was given.
    """
    if class_weight is None and sample_weight is None:
        return None
    if isinstance(target, Numbers) and class_weight is not None:
        raise ArgumentError("class_weight", class_weight, "None: numbers have no classes")
    if isinstance(target, LabelSets) and class_weight is not None:
        expected = "None with multilabel=True, which tunes a threshold for each label"
        raise ArgumentError("class_weight", class_weight, expected)
    columns = columns_of(target)
    weights = np.ones((len(values), len(columns)))
    if sample_weight is not None:
        weights *= np.asarray(sample_weight, dtype=np.float64)[:, None]
    for k, column in enumerate(columns):
        rows, truth = known_values(target, values, k)
        if class_weight is not None:
            assert isinstance(column, Classes)
            weights[rows, k] *= _class_weights(column, truth, class_weight)
        total = weights[rows, k].sum()
        weights[:, k] *= len(rows) / total if total else 1.0
    return weights


def _class_weights(column: Classes, truth: NDArray[np.int64], given: Any) -> NDArray[np.float64]:
    """Return the weight of the class of each row ``(N,)``."""
    if given == "balanced":
        counts = np.bincount(truth, minlength=column.width)
        return (len(truth) / np.maximum(counts, 1))[truth]
    by_number = np.ones(column.width)
    for label, weight in given.items():
        if (value := _label(label, "class_weight")) not in column.names:
            expected = f"weights of the classes {', '.join(map(repr, column.names[:6]))}"
            raise ArgumentError("class_weight", given, expected)
        by_number[column.number(value, "class_weight")] = weight
    return by_number[truth]


def chances_of(target: Classes, fitted: Classes, table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of a target's classes; 0 of those that were not fitted."""
    places = {name: number for number, name in enumerate(target.names)}
    result = np.zeros((len(table), len(target.names)))
    result[:, [places[name] for name in fitted.names]] = table
    return result


def as_labels(names: tuple[Any, ...]) -> NDArray[Any]:
    """Return labels as an array ``(C,)``, of objects if they are of several types."""
    labels = np.empty(len(names), dtype=object)
    labels[:] = names
    plain = np.asarray(names) if len({*map(type, names)}) == 1 else labels
    return plain if plain.shape == labels.shape else labels


def centered(outputs: Tensor) -> Tensor:
    """Return the score of each output ``(C, ...)``: minus their mean, or a single one as it is."""
    return outputs - outputs.mean(0) if len(outputs) > 1 else outputs


def _as_numbers(y: Any) -> NDArray[np.float64]:
    try:
        if np.iscomplexobj(y):
            raise TypeError
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        row = next((i for i, value in enumerate(y) if not _is_number(value)), 0)
        raise DataError(f"y[{row}] is {y[row]!r}; expected a number") from None
    if values.ndim not in (1, 2):
        raise DataError(f"y has shape {values.shape}; expected (N,) or (N, K)")
    if np.isinf(values).any():
        row = int(np.argwhere(np.isinf(values))[0][0])
        raise DataError(f"y[{row}] is infinity", fix="Correct the value or leave this row out.")
    return values if values.ndim == 2 else values[:, None]


def _is_number(value: Any) -> bool:
    if np.iscomplexobj(value):  # whose imaginary part NumPy would drop
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def checked_weights(sample_weight: Any, objects: Any) -> NDArray[np.float64]:
    """Return the weights of objects ``(N,)``."""
    sequence = as_sequence(column_of(sample_weight), "sample_weight")
    require_same_length(objects, sequence, "sample_weight")
    weights = _as_numbers(sequence)[:, 0]
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        row = int(np.argmin(np.where(np.isfinite(weights), weights, -np.inf)))
        problem = f"sample_weight[{row}] is {weights[row]:g}"
        raise DataError(problem, fix="Pass non-negative numbers that are not all 0.")
    return weights


def score_weights(sample_weight: Any, truth: NDArray[Any]) -> NDArray[np.float64]:
    """Return the weight of each row ``(N,)``, 1 by default."""
    return np.ones(len(truth)) if sample_weight is None else checked_weights(sample_weight, truth)


def are_known_values(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where there are values to score with, or raise a `DataError` if nowhere."""
    is_known = ~np.isnan(values)
    if not is_known.any():
        raise DataError("y has no known value", fix="Score with rows whose target is known.")
    return is_known


def groups_of(groups: Any, X: Any) -> NDArray[np.str_]:
    """Return the group of each object as text, after requiring one for each."""
    names = [*as_sequence(column_of(groups), "groups")]
    require_same_length(X, names, "groups")
    for row, name in enumerate(names):
        if _is_missing(name):
            problem = f"groups[{row}] is {name!r}: a missing group"
            raise DataError(problem, fix="Leave this row out.")
    return np.array([str(name) for name in names])


def require_same_length(X: Any, y: Any, name: str = "y") -> None:
    """Require one target per object."""
    if len(X) != len(y):
        raise DataError(f"X has {len(X)} rows and {name} has {len(y)}; they must be equal")
