"""The targets of estimators: classes or numbers, with their loss and validation metrics.

A network returns ``(B, W)``, or ``(M, B, W)`` for M members; W is `width`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

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
        rows: dict[Any, list[int]] = {}
        for row, label in enumerate(y):
            rows.setdefault(_label(label, row), []).append(row)
        if len(rows) < 2:
            problem = (
                f"y has one class, {next(iter(rows), None)!r}; a classifier needs at least two"
            )
            raise DataError(problem, fix="Add examples of another class.")
        for label, own in rows.items():
            if len(own) == 1:
                problem = f"y[{own[0]}] is the only example of the class {label!r}"
                raise DataError(problem, fix="Add another example of it, or leave this one out.")
        try:
            return cls(tuple(sorted(rows)))
        except TypeError:  # labels of several types
            return cls(tuple(sorted(rows, key=lambda label: (type(label).__name__, str(label)))))

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
        numbers = {name: number for number, name in enumerate(self.names)}
        result = np.empty(len(y), dtype=np.int64)
        for row, label in enumerate(y):
            number = numbers.get(_label(label, row))
            if number is None:
                shown = ", ".join(map(repr, self.names[:6])) + (", ..." if self.width > 6 else "")
                raise DataError(f"y[{row}] is {label!r}; the classes are {shown}")
            result[row] = number
        return result

    def loss(self, outputs: Tensor, values: Tensor) -> Tensor:
        """Return the mean cross-entropy, summed over members."""
        members = outputs if outputs.dim() == 3 else outputs[None]
        return sum((F.cross_entropy(own, values) for own in members), members.new_zeros(()))

    def probabilities(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each class, averaged over members ``(N, C)``."""
        chances = torch.from_numpy(outputs).softmax(-1).numpy()
        return chances.mean(0) if chances.ndim == 3 else chances

    def metrics(self, outputs: NDArray[np.float64], values: NDArray[Any]) -> dict[str, float]:
        """Return ``valid_loss``, the mean negative log probability, and ``valid_accuracy``."""
        chances = self.probabilities(outputs)
        own = np.clip(chances[np.arange(len(values)), values], 1e-12, None)
        right = chances.argmax(axis=1) == values
        return {"valid_loss": -float(np.log(own).mean()), "valid_accuracy": float(right.mean())}


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
        """Return the targets with the means and scales of known values ``(N,)`` or ``(N, K)``.

        Raises:
            DataError: A value is infinite, or a target has fewer than two different values.
        """
        values = _as_numbers(y)
        for k in range(values.shape[1]):
            known = values[~np.isnan(values[:, k]), k]
            if len(known) < 2 or np.ptp(known) == 0:
                what = f"the one value {known[0]:g}" if len(known) else "no value"
                place = "y" if np.ndim(y) == 1 else f"y[:, {k}]"
                raise DataError(f"{place} has {what}; there is nothing to learn")
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
        return _as_numbers(y)

    def loss(self, outputs: Tensor, values: Tensor) -> Tensor:
        """Return the mean squared error in standardized units, summed over members."""
        members = outputs if outputs.dim() == 3 else outputs[None]
        is_known = ~values.isnan()
        means, scales = (members.new_tensor(part) for part in (self.means, self.scales))
        wanted = torch.where(is_known, (values.to(members) - means) / scales, 0.0)
        return ((members - wanted).square() * is_known).sum() / is_known.sum().clamp(min=1)

    def in_unit(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return outputs in the unit of the targets."""
        return outputs * np.asarray(self.scales) + np.asarray(self.means)

    def metrics(self, outputs: NDArray[np.float64], values: NDArray[Any]) -> dict[str, float]:
        """Return ``valid_loss`` in standardized units and, for one target, ``valid_rmse``."""
        members = outputs if outputs.ndim == 3 else outputs[None]
        errors = (self.in_unit(members).mean(0) - values) / np.asarray(self.scales)
        loss = float(np.nanmean(errors**2))
        rmse = {"valid_rmse": loss**0.5 * self.scales[0]} if self.width == 1 else {}
        return {"valid_loss": loss, **rmse}


Target = Classes | Numbers


def centered(outputs: Tensor) -> Tensor:
    """Return the score of each output ``(C, ...)``: minus their mean, or a single one as it is."""
    return outputs - outputs.mean(0) if len(outputs) > 1 else outputs


def _label(label: Any, row: int) -> Any:
    """Return a label as a plain Python value."""
    value = label.item() if isinstance(label, np.generic) else label
    if value is None or value != value:
        raise DataError(f"y[{row}] is {label!r}: a missing label", fix="Leave this row out.")
    try:
        hash(value)
    except TypeError:
        raise DataError(f"y[{row}] is a {type(label).__name__}; expected a label") from None
    return value


def _as_numbers(y: Any) -> NDArray[np.float64]:
    try:
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
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def require_same_length(X: Any, y: Any, name: str = "y") -> None:
    """Require one target per object.

    Raises:
        DataError: If the lengths differ.
    """
    if len(X) != len(y):
        raise DataError(f"X has {len(X)} rows and {name} has {len(y)}; they must be equal")
