r"""Split conformal prediction: sets and intervals that contain the truth at a known rate.

The calibration rows are drawn at random from the rows to fit, and neither train anything nor choose
weights or hyperparameters. Each has a score s of how badly its true value fits the prediction:

.. math::
    s = 1 - p_y \text{ for classes}, \qquad s = |y - \mu| / \sigma \text{ for numbers}

With q the :math:`\lceil (n + 1)\,\ell \rceil`-th smallest of the n scores, the score of a new row
is at most q with a probability from the level :math:`\ell` to :math:`\ell + 1/(n + 1)`, whatever
the model, if the rows are exchangeable. This is a mean over calibration and new rows: given the
calibration rows, the rate has a standard deviation of about :math:`\sqrt{\ell (1 - \ell) / n}`.

References:
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
from representer.estimators.division import held_out_groups
from representer.estimators.targets import Target
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder
from representer.training import generators

FILE = "conformal.json"
FRACTION, ENOUGH, MOST = 0.1, 100, 0.3  # of the rows; up to ENOUGH rows, MOST of them
FEWEST = 3  # rows of a class that stay to be trained on


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
        quantiles = []
        for own in scores:
            rank = math.ceil((len(own) + 1) * level - 1e-9)  # 0.9 is not a binary fraction
            if rank > len(own):
                least = math.ceil(level / (1 - level) - 1e-9)
                problem = f"conformal={level:g} needs at least {least} calibration rows; there are"
                raise DataError(f"{problem} {len(own)}", fix="Add data, or lower the level.")
            quantiles.append(float(np.sort(own)[rank - 1]))
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
    target: Target, values: NDArray[Any], groups: Any, seed: int
) -> tuple[list[int], list[int]]:
    """Return the rows to train on and the calibration rows.

    The rows are drawn at random; of a class, three stay. With groups, whole groups are drawn, and
    the probability then holds over groups.
    """
    count = len(values)
    wanted = round(count * calibration_fraction(count))
    is_class = isinstance(target, Classes)
    labels = values if is_class else np.zeros(count, dtype=np.int64)
    if groups is not None:
        own = np.asarray([str(group) for group in groups])
        names = list(dict.fromkeys(own.tolist()))
        if len(names) < 3:
            problem = f"groups has {len(names)} groups; conformal prediction needs at least 3"
            raise DataError(problem, fix="Add groups.")
        held = held_out_groups(labels, own, names, wanted / count, seed, "conformal")
        chosen = {row for row in range(count) if own[row] in held}
    else:
        left = np.bincount(labels)
        chosen: set[int] = set()
        table = values.reshape(count, -1)
        for row in np.random.default_rng(generators.derive(seed, "conformal")).permutation(count):
            is_known = is_class or not np.isnan(table[row]).all()
            if len(chosen) < wanted and is_known and left[labels[row]] > FEWEST:
                chosen.add(int(row))
                left[labels[row]] -= 1
    return [row for row in range(count) if row not in chosen], sorted(chosen)
