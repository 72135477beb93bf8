"""Class labels as targets, of one column or several; see `targets`."""

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

from representer.data.tables.label_map import alike
from representer.errors import DataError


@dataclass(frozen=True)
class Classes:
    """Labels of one target.

    Args:
        names: The distinct labels; the number of a class is its position.
    """

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
            return sum((F.cross_entropy(own, values) for own in members), members.new_zeros(()))
        losses = [F.cross_entropy(own, values, reduction="none") for own in members]
        return (torch.stack(losses) * weights[:, 0].to(members)).mean(1).sum()

    def probabilities(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each class, averaged over members ``(N, C)``."""
        chances = torch.from_numpy(outputs).softmax(-1).numpy()
        return chances.mean(0) if chances.ndim == 3 else chances

    def metrics(
        self,
        outputs: NDArray[np.float64],
        values: NDArray[Any],
        weights: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:
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
    """Labels of several targets, NaN or None where unknown.

    Args:
        columns: The classes of each target.
    """

    columns: tuple[Classes, ...]

    @classmethod
    def find(cls, y: Any) -> ClassTable:
        """Return the classes of each column of labels ``(N, K)``.

        Raises:
            DataError: A target has fewer than two classes, or one of its labels occurs once.
        """
        table = _label_table(y)
        found = []
        for k in range(table.shape[1]):
            rows = [row for row, label in enumerate(table[:, k]) if not _is_missing(label)]
            found.append(
                _classes({row: table[row, k] for row in rows}, f", {k}", f" in column {k}")
            )
        return cls(tuple(found))

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
            for own in logits[:, is_known]:
                losses = F.cross_entropy(own, wanted, reduction="none")
                if weights is not None:
                    losses = losses * weights[is_known, k].to(losses)
                total = total + losses.sum()
            count += len(wanted)
        return total / max(count, 1)

    def probabilities(self, outputs: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return the class probabilities of each target, averaged over members ``(N, C)``."""
        parts = np.split(outputs, np.cumsum(self.widths)[:-1], axis=-1)
        return [own.probabilities(part) for own, part in zip(self.columns, parts, strict=True)]

    def metrics(
        self,
        outputs: NDArray[np.float64],
        values: NDArray[Any],
        weights: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:
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


def _classes(labels: dict[int, Any], column: str = "", where: str = "") -> Classes:
    """Return the classes of the labels of some rows, see `Classes.find`."""
    rows: dict[Any, list[int]] = {}
    for row, label in labels.items():
        rows.setdefault(_label(label, f"{row}{column}"), []).append(row)
    if len(rows) < 2:
        only = f"one class, {next(iter(rows))!r}" if rows else "no label"
        problem = f"y has {only}{where}; a classifier needs at least two classes"
        raise DataError(problem, fix="Add examples of another class.")
    for label, own in rows.items():
        if len(own) == 1 and isinstance(label, float) and not label.is_integer():
            place = f"y[{own[0]}{column}]"
            problem = f"Unknown label type: {place} is {label!r}, a continuous number"
            raise DataError(problem, fix="Use a regressor.")
    if note := alike(rows):
        warnings.warn(note, stacklevel=2)
    try:
        return Classes(tuple(sorted(rows)))
    except TypeError:  # labels of several types
        return Classes(tuple(sorted(rows, key=lambda label: (type(label).__name__, str(label)))))


def mean_of(values: Any, weights: NDArray[np.float64] | None) -> float:
    """Return the mean of values ``(N,)`` with weights ``(N, 1)``; without weight, the plain one."""
    if weights is None or not weights.any():
        return float(np.mean(values))
    return float(np.average(values, weights=weights[:, 0]))


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
