r"""Split conformal prediction: sets and intervals that contain the truth at a known rate.

The calibration rows are drawn at random from the rows to fit, and neither train anything nor choose
weights or hyperparameters. Each has a score s of how badly its true value fits the prediction:

.. math::
    s = 1 - p_y \text{ for classes}, \qquad s = |y - \mu| / \sigma \text{ for numbers}

With q the :math:`\lceil (n + 1)\,\ell \rceil`-th smallest of the n scores, the score of a new row
is at most q with a probability from the level :math:`\ell` to :math:`\ell + 1/(n + 1)`, whatever
the model, if the rows are exchangeable. This is a mean over calibration and new rows: given the
calibration rows, the rate has a standard deviation of about :math:`\sqrt{\ell (1 - \ell) / n}`.
With groups, n is their number, and the probability is that of a random row of a new group.

References:
    Dunn, Wasserman and Ramdas, Distribution-Free Prediction Sets for Two-Layer Hierarchical Models,
    JASA 118, 2023, for one row of each group.
    Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005.
    Lei, G'Sell, Rinaldo, Tibshirani and Wasserman, Distribution-Free Predictive Inference for
    Regression, JASA 113, 2018; their section 5.2 has the score of numbers.
    Sadinle, Lei and Wasserman, Least Ambiguous Set-Valued Classifiers, JASA 114, 2019, for the
    score of classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from representer.errors import DataError
from representer.estimators.classes import Classes
from representer.estimators.targets import Target
from representer.printable import say
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder
from representer.training import generators

FILE = "conformal.json"
FRACTION, ENOUGH, MOST = 0.1, 100, 0.3  # of the rows; up to ENOUGH rows, MOST of them


@dataclass(frozen=True)
class Conformal:
    """The quantiles of the calibration scores.

    Args:
        level: Probability with which a set or an interval contains the true value.
        quantiles: q of each target.
        counts: Number of calibration rows of each target.
    """

    level: float
    quantiles: tuple[float, ...]
    counts: tuple[int, ...]

    @classmethod
    def fit(cls, level: float, scores: Sequence[NDArray[np.float64]]) -> Self:
        """Return the quantiles of scores.

        Raises:
            DataError: There are too few rows for the level.
        """
        quantiles = [float(np.sort(own)[_rank(level, len(own)) - 1]) for own in scores]
        return cls(level, tuple(quantiles), tuple(map(len, scores)))

    def sets(self, tables: Sequence[NDArray[np.float64]]) -> list[NDArray[np.bool_]]:
        """Return the classes in the set of each row, from the probabilities of each target."""
        return [1 - own <= q for own, q in zip(tables, self.quantiles, strict=True)]

    def half_widths(self, deviations: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return half of the width of each interval ``(N, K)``, from standard deviations."""
        return deviations * np.asarray(self.quantiles)

    def write(self, run: RunFolder) -> None:
        """Write what `read` reads into a run folder."""
        run.write_json(FILE, asdict(self))

    @classmethod
    def read(cls, files: RunFiles) -> Self:
        """Return what `write` wrote.

        Raises:
            DataError: The file is damaged.
        """
        found = files.read(FILE, cls)
        files.parsed(FILE, found._check)
        return found

    def _check(self) -> None:
        numbers = np.array([*self.quantiles, *self.counts])
        is_finite = np.isfinite(numbers).all() and (numbers >= 0).all()
        if not (0 < self.level < 1 and is_finite and len(self.quantiles) == len(self.counts)):
            raise ValueError("its numbers are out of their range")


def class_scores(
    tables: Sequence[NDArray[np.float64]], values: NDArray[Any]
) -> list[NDArray[np.float64]]:
    """Return the scores of the known rows of each target.

    Args:
        tables: Probabilities of each target ``(N, C)``.
        values: Numbers of the true classes ``(N,)`` or ``(N, K)``, NaN where unknown.
    """
    scores = []
    for own, truth in zip(tables, values.reshape(len(values), -1).T, strict=True):
        rows = np.flatnonzero(~np.isnan(truth))
        scores.append(1 - own[rows, truth[rows].astype(int)])
    return scores


def number_scores(
    means: NDArray[np.float64], deviations: NDArray[np.float64], values: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Return the scores of the known rows of each target, from arrays ``(N, K)``."""
    sizes = np.abs(values - means) / deviations
    return [own[~np.isnan(own)] for own in sizes.T]


def calibration_fraction(count: int) -> float:
    """Return the fraction of rows to set aside: a tenth, or 100 rows if at most three tenths."""
    return max(FRACTION, min(ENOUGH / count, MOST))


def calibration_rows(
    target: Target, values: NDArray[Any], groups: Any, seed: int, level: float | None = None
) -> tuple[list[int], list[int]]:
    """Return the rows to train on and the calibration rows.

    The rows are drawn at random from all, so that no class is too rare for them. With groups, these
    are drawn, each of them gives one random row, which is exchangeable with a row of a new group,
    and its other rows are left out.

    Raises:
        DataError: There are too few rows or groups for the level.
    """
    count, rng = len(values), np.random.default_rng(generators.derive(seed, "conformal"))
    own = np.arange(count)
    if groups is not None:
        own = np.unique([str(group) for group in groups], return_inverse=True)[1]
    known = np.flatnonzero(~np.isnan(values.reshape(count, -1).astype(float)).all(axis=1))
    order = rng.permutation(count)
    order = order[np.isin(order, known)]
    if groups is not None:
        order = rng.permutation(order[np.unique(own[order], return_index=True)[1]])
    size = len(np.unique(own))
    chosen = np.sort(order[: round(size * calibration_fraction(size))])
    if level is not None:
        _rank(level, len(chosen), "rows" if groups is None else "groups")
    rest = np.flatnonzero(~np.isin(own, own[chosen]))
    if isinstance(target, Classes) and len(np.unique(values[rest])) < 2:
        problem = "the rows that calibration leaves to train on are of one class"
        raise DataError(problem, fix="Add examples of the others.")
    return rest.tolist(), chosen.tolist()


def repeated(digests: NDArray[np.int64], level: float) -> NDArray[np.int64] | None:
    """Return digests as groups if some are equal, since copies must not be on both sides.

    If there are too few for the level, they are on both, with a notice.
    """
    if (count := len(np.unique(digests))) == len(digests):
        return None
    if round(count * calibration_fraction(count)) * (1 - level) >= level - 1e-9:
        return digests
    say("so few objects differ that calibration rows equal others: the sets are too small")
    return None


def _rank(level: float, count: int, noun: str = "rows") -> int:
    """Return the number of scores up to the quantile, or raise a `DataError` if there are fewer."""
    rank = math.ceil((count + 1) * level - 1e-9)  # 0.9 is not a binary fraction
    if rank > count:
        least = math.ceil(level / (1 - level) - 1e-9)
        problem = f"conformal={level:g} needs at least {least} calibration {noun}; there are"
        raise DataError(f"{problem} {count}", fix=f"Add {noun}, or lower the level.")
    return rank
