"""The targets of estimators: classes or numbers, with their loss and validation metrics.

A network returns ``(B, W)``, or ``(M, B, W)`` for M members; W is `width`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from representer.errors import ArgumentError, DataError
from representer.estimators.classes import Classes, ClassTable
from representer.estimators.containers import as_sequence, column_of


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
        """Return the numbers ``(N, K)`` in their unit.

        Raises:
            DataError: A value is no number or infinite, or the number of targets differs.
        """
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
        means, scales = (values.new_tensor(part) for part in (self.means, self.scales))
        # in float64, since a mean may be large beside the scale, as of dates in seconds
        wanted = torch.where(is_known, (values - means) / scales, 0.0).to(members)
        errors = (members - wanted).square() * is_known
        errors = errors if weights is None else errors * weights.to(errors)
        return errors.sum() / is_known.sum().clamp(min=1)

    def in_unit(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return outputs in the unit of the targets."""
        return outputs * np.asarray(self.scales) + np.asarray(self.means)

    def metrics(
        self,
        outputs: NDArray[np.float64],
        values: NDArray[Any],
        weights: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:
        """Return ``valid_loss`` in standardized units and, for one target, ``valid_rmse``."""
        members = outputs if outputs.ndim == 3 else outputs[None]
        errors = (self.in_unit(members).mean(0) - values) / np.asarray(self.scales)
        loss = float(np.nanmean(errors**2))
        if weights is not None and (of_known := weights[~np.isnan(errors)]).any():
            loss = float(np.average(errors[~np.isnan(errors)] ** 2, weights=of_known))
        rmse = {"valid_rmse": loss**0.5 * self.scales[0]} if self.width == 1 else {}
        return {"valid_loss": loss, **rmse}


Column = Classes | Numbers
Target = Column | ClassTable


def columns_of(target: Target) -> list[Column]:
    """Return each target by itself."""
    if isinstance(target, Classes):
        return [target]
    if isinstance(target, ClassTable):
        return list(target.columns)
    pairs = zip(target.means, target.scales, strict=True)
    return [Numbers((mean,), (scale,), target.is_single) for mean, scale in pairs]


def known_values(target: Target, values: NDArray[Any], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows with a value of a target, and these values as it encodes them."""
    if isinstance(target, Classes):
        return np.arange(len(values)), values
    rows = np.flatnonzero(~np.isnan(values[:, k]))
    known = values[rows, k]
    return rows, known[:, None] if isinstance(target, Numbers) else known.astype(np.int64)


def example_weights(
    target: Target, values: NDArray[Any], class_weight: Any, sample_weight: Any
) -> NDArray[np.float64] | None:
    """Return the weight of each value ``(N, K)``, with the mean 1 in each target.

    Args:
        target: What is predicted.
        values: Its encoded values.
        class_weight: ``"balanced"``, a weight for each class by its label, or None, as in
            scikit-learn.
        sample_weight: The weight of each row ``(N,)``, or None.

    Returns:
        The weights; None if all are equal because neither was given.

    Raises:
        ArgumentError: Numbers have no classes, or a class is unknown.
    """
    if class_weight is None and sample_weight is None:
        return None
    if isinstance(target, Numbers) and class_weight is not None:
        raise ArgumentError("class_weight", class_weight, "None: numbers have no classes")
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
        by_number[column.number(label, "class_weight")] = weight
    return by_number[truth]


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
    """Return the weights of objects ``(N,)``.

    Raises:
        DataError: One is negative or no finite number, all are 0, or there are more or fewer.
    """
    given = as_sequence(column_of(sample_weight), "sample_weight")
    require_same_length(objects, given, "sample_weight")
    weights = _as_numbers(given)[:, 0]
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        row = int(np.argmin(np.where(np.isfinite(weights), weights, -np.inf)))
        problem = f"sample_weight[{row}] is {weights[row]:g}"
        raise DataError(problem, fix="Pass non-negative numbers that are not all 0.")
    return weights


def require_same_length(X: Any, y: Any, name: str = "y") -> None:
    """Require one target per object.

    Raises:
        DataError: If the lengths differ.
    """
    if len(X) != len(y):
        raise DataError(f"X has {len(X)} rows and {name} has {len(y)}; they must be equal")
