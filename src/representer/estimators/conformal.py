r"""Conformal prediction: sets and intervals that contain the truth at a known rate.

Each calibration row has a score s of how badly its true value fits the prediction:

.. math::
    s = 1 - p_y \text{ for classes}, \qquad s = |y - \mu| / \sigma \text{ for numbers}

With q the :math:`\lceil (n + 1)\,\ell \rceil`-th smallest of the n scores, the score of a new row
is at most q with a probability from the level :math:`\ell` to :math:`\ell + 1/(n + 1)`, whatever
the model, if the rows are exchangeable. This is a mean over calibration and new rows: given the
calibration rows, the rate has a standard deviation of about
:math:`\sqrt{\ell (1 - \ell) / n}`. With groups, n is their number, and the probability is that of a
random row of a new group.

Split conformal prediction draws the calibration rows at random from the rows to fit; they neither
train anything nor choose weights or hyperparameters. Cross-conformal prediction needs no rows of
its own: each row calibrates once, by a model that was fitted without its fold, and the model that
predicts is fitted to all rows. It has seen more rows than those of the folds, so that the rate is
at least the level for a model that more data does not make worse, but it is not proved to be. Here
the rows of a group, of which each has the weight of one over their number, count as one.

The Mondrian form has a quantile for each class, or for each group, so that the rate holds for each
of them, not only in the mean over all.

References:
    Dunn, Wasserman and Ramdas, Distribution-Free Prediction Sets for Two-Layer Hierarchical Models,
    JASA 118, 2023, for one row of each group, and for weighted rows of all groups.
    Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005; section 4.5 has the
    Mondrian form.
    Vovk, Cross-Conformal Predictors, Annals of Mathematics and Artificial Intelligence 74, 2015.
    Lei, G'Sell, Rinaldo, Tibshirani and Wasserman, Distribution-Free Predictive Inference for
    Regression, JASA 113, 2018; their section 5.2 has the score of numbers.
    Sadinle, Lei and Wasserman, Least Ambiguous Set-Valued Classifiers, JASA 114, 2019, for the
    score of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from representer.data.splits import ALIKE, are_enough, rank_of
from representer.errors import ArgumentError, DataError, say
from representer.estimators.targets import Classes, Numbers, columns_of, known_values, splits_of
from representer.storage.run import RunFiles, RunFolder

if TYPE_CHECKING:
    from representer.estimators.supervised import SupervisedEstimator

CONFORMAL_FILE = "conformal.json"
STRATA = ("class", "group")

Rows = NDArray[Any] | None  # a name for each row


@dataclass(frozen=True)
class Conformal:
    """The quantiles of the calibration scores.

    Args:
        level: Probability with which a set or an interval contains the true value.
        quantiles: q of each target.
        counts: Number of calibration rows of each target.
        by: ``"class"`` or ``"group"`` if each has a quantile.
        strata: The quantile of each class or group by its name, of each target.
    """

    level: float
    quantiles: tuple[float, ...]
    counts: tuple[int, ...]
    by: str | None = None
    strata: tuple[dict[str, float], ...] = ()

    @classmethod
    def fit(
        cls, level: float, scores: Sequence[NDArray[np.float64]], by: str | None = None,
        names: Sequence[NDArray[Any]] = (), units: Sequence[NDArray[Any] | None] | None = None,
    ) -> Self:  # fmt: skip
        """Return the quantiles of scores.

        ``scores`` are those of the known rows of each target, ``names`` the class or the group of
        each of these rows, ``units`` the group or the copies that it counts as one with.

        Raises:
            DataError: There are too few rows for the level.
        """
        alike = units or [None] * len(scores)
        quantiles = [_quantile(level, *column) for column in zip(scores, alike, strict=True)]
        strata = []
        for every, of_rows, unit in zip(scores, names, alike, strict=True) if by else ():
            present, numbers = np.unique([str(group) for group in of_rows], return_inverse=True)
            strata.append({})
            for number, name in enumerate(present.tolist()):
                rows = every[numbers == number]
                joined = None if unit is None or by == "group" else unit[numbers == number]
                count = len(rows if joined is None else np.unique(joined))
                if by == "class" and not are_enough(count, level):
                    strata[-1][name] = 1.0  # too few to leave the class out of any set
                    continue
                strata[-1][name] = _quantile(level, rows, joined, f"rows of the {by} {name!r}")
        return cls(level, tuple(quantiles), tuple(map(len, scores)), by, tuple(strata))

    def sets(
        self, tables: Sequence[NDArray[np.float64]], classes: Sequence[Sequence[Any]] = (),
        groups: NDArray[Any] | None = None,
    ) -> list[NDArray[np.bool_]]:  # fmt: skip
        """Return the classes in the set of each row, from the probabilities of each target.

        A quantile by class needs the names of the classes of each target, one by group the group of
        each row.
        """
        if self.by == "class":
            # a class without a calibration row is in every set
            bounds = [
                np.array([quantiles.get(str(name), 1.0) for name in names])
                for quantiles, names in zip(self.strata, classes, strict=True)
            ]
        else:
            bounds = [column[:, None] for column in self.of_rows(len(tables[0]), groups)]
        return [1 - table <= q for table, q in zip(tables, bounds, strict=True)]

    def half_widths(
        self, deviations: NDArray[np.float64], groups: NDArray[Any] | None = None
    ) -> NDArray[np.float64]:
        """Return half of the width of each interval ``(N, K)``, from standard deviations."""
        return deviations * np.stack(self.of_rows(len(deviations), groups), axis=1)

    def of_rows(self, count: int, groups: NDArray[Any] | None) -> list[NDArray[np.float64]]:
        """Return the quantile of each row ``(N,)``, of each target."""
        if self.by != "group":
            return [np.full(count, q) for q in self.quantiles]
        if groups is None:
            fix = "Pass groups=, with a name for each row."
            raise DataError("each group has sets or intervals of its own", fix=fix)
        if unseen := sorted({str(group) for group in groups} - {*self.strata[0]}):
            problem = f"the group {unseen[0]!r} has no calibration rows"
            raise DataError(problem, fix=f"Groups that have some: {', '.join(self.strata[0])}.")
        return [np.array([column[str(group)] for group in groups]) for column in self.strata]

    def write(self, run: RunFolder) -> None:
        """Write what `read` reads into a run folder."""
        run.write_json(CONFORMAL_FILE, asdict(self))

    @classmethod
    def read(cls, files: RunFiles) -> Self:
        """Return what `write` wrote.

        Raises:
            DataError: The file is damaged.
        """
        fitted = files.read(CONFORMAL_FILE, cls)
        files.parsed(CONFORMAL_FILE, fitted.check)
        return fitted

    def check(self) -> None:
        """Check every value, which may come from a file."""
        each = [q for column in self.strata for q in column.values()]
        numbers = np.array([*self.quantiles, *self.counts, *each])
        is_finite = np.isfinite(numbers).all() and (numbers >= 0).all()
        is_fine = len(self.strata) == (len(self.quantiles) if self.by else 0)
        is_fine = is_fine and self.by in (None, *STRATA) and len(self.quantiles) == len(self.counts)
        if not (0 < self.level < 1 and is_finite and is_fine):
            raise ValueError("its numbers are out of their range")


def class_scores(
    tables: Sequence[NDArray[np.float64]], values: NDArray[Any]
) -> list[NDArray[np.float64]]:
    """Return the scores of the known rows of each target.

    ``values`` are the numbers of the true classes ``(N,)`` or ``(N, K)``, NaN where unknown.
    """
    scores = []
    for table, truth in zip(tables, values.reshape(len(values), -1).T, strict=True):
        rows = np.flatnonzero(~np.isnan(truth))
        scores.append(1 - table[rows, truth[rows].astype(int)])
    return scores


def number_scores(
    means: NDArray[np.float64], deviations: NDArray[np.float64], values: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Return the scores of the known rows of each target, from arrays ``(N, K)``."""
    sizes = np.abs(values - means) / deviations
    return [column[~np.isnan(column)] for column in sizes.T]


def _quantile(
    level: float, scores: NDArray[np.float64], units: NDArray[Any] | None = None, noun: str = "rows"
) -> float:
    """Return the quantile of scores; those of a unit have the weight of one together."""
    if units is None:
        return float(np.sort(scores)[rank_of(level, len(scores), noun) - 1])
    _, codes, counts = np.unique(units, return_inverse=True, return_counts=True)
    rank_of(level, len(counts), "groups")
    order = np.argsort(scores)
    shares = np.cumsum(1 / counts[codes[order]]) / (len(counts) + 1)
    return float(scores[order[np.searchsorted(shares, level - 1e-9)]])


def require_strata(estimator: SupervisedEstimator, groups: NDArray[Any] | None) -> None:
    """Require classes or groups if each is to have a quantile."""
    by = estimator.conformal_by
    if by == "class" and isinstance(estimator.target_, Numbers):
        raise ArgumentError("conformal_by", by, "'group' or None for numbers")
    if by == "group" and groups is None:
        raise ArgumentError("conformal_by", by, "groups= to be passed to fit")


def calibrated(
    estimator: SupervisedEstimator, scores: Sequence[NDArray[np.float64]], values: NDArray[Any],
    groups: NDArray[Any] | None, units: NDArray[Any] | None = None,
) -> Conformal:  # fmt: skip
    """Return the quantiles of calibration rows.

    ``scores`` are those of the known rows of each target, ``values`` the encoded targets of the
    rows, ``units`` what counts as one with them.

    Raises:
        DataError: There are too few rows for the level.
    """
    assert estimator.conformal is not None
    require_strata(estimator, groups)
    by, names, alike = estimator.conformal_by, [], []
    for k, column in enumerate(columns_of(estimator.target_)):
        rows, truth = known_values(estimator.target_, values, k)
        if by == "class" and isinstance(column, Classes):
            names.append(np.array([str(column.names[number]) for number in truth]))
        elif groups is not None:
            names.append(groups[rows])
        alike.append(None if units is None else units[rows])
    return Conformal.fit(estimator.conformal, scores, by, names, alike)


def cross_scores(
    estimator: SupervisedEstimator, objects: Sequence[Any], y: Any, values: NDArray[Any],
    groups: NDArray[Any] | None, weights: NDArray[np.float64] | None, digests: NDArray[np.int64],
) -> tuple[list[NDArray[np.float64]], NDArray[Any], Rows, Rows]:  # fmt: skip
    """Return the scores of all rows, each by an estimator that was fitted without its fold.

    Copies, and rows of a group, are in the same fold. With the scores of each target come the
    encoded targets, the groups and what counts as one, in the same order.
    """
    assert estimator.conformal is not None
    require_strata(estimator, groups)
    if estimator.warm_start:
        expected = "'split' with warm_start, whose model may have seen the rows"
        raise ArgumentError("calibration", "cross", expected)
    alike = digests if groups is None or estimator.conformal_by == "group" else groups
    count = len(np.unique(alike))
    together = alike if count < len(alike) else None
    units = None if estimator.conformal_by == "group" else together
    if units is groups and groups is not None:
        rank_of(estimator.conformal, count, "groups")
    elif units is not None and not are_enough(count, estimator.conformal):
        units = None
        say(ALIKE)
    splits = splits_of(estimator.target_, values, together)
    # a class of a single row is in no fold of those with all classes
    folds = splits.folds() or splits.without_classes().folds()
    if not folds:
        fix = "Add examples, or leave conformal out."
        raise DataError("there are too few rows for cross-conformal prediction", fix=fix)
    scores = []
    for rows, held_out in folds:
        fold: Any = cast("Any", clone(estimator)).set_params(conformal=None)
        fold.fit(
            [objects[row] for row in rows],
            y[rows] if isinstance(y, np.ndarray) else [y[row] for row in rows],
            groups=None if groups is None else groups[rows],
            sample_weight=None if weights is None else weights[rows],
        )  # fmt: skip
        held = [objects[row] for row in held_out]
        scores.append(fold.conformal_scores(held, values[held_out], estimator.target_))
    order = np.concatenate([held_out for _, held_out in folds])
    joined = [np.concatenate(of_target) for of_target in zip(*scores, strict=True)]
    of_rows = [None if rows is None else rows[order] for rows in (groups, units)]
    return joined, values[order], of_rows[0], of_rows[1]
