"""The choice of a kernel and of its machine's penalty, on objects held out from the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from representer.estimators.classes import Classes
from representer.estimators.kernel_machine import (
    ExplicitKernel,
    compressed,
    fit_kernel,
    scores_of,
    solver,
)
from representer.estimators.targets import Numbers

CANDIDATES = (1.0, 3.0, 10.0, 30.0, 100.0)  # of C, the inverse of the L2 penalty
_FOLDS = 5

Labeled = tuple[Sequence[Any], NDArray[Any]]
Split = tuple[NDArray[np.intp], NDArray[np.intp]]


class Selected(NamedTuple):
    """The kernel and the C with the smallest loss.

    Attributes:
        kernel: Fitted to the training objects.
        penalty: C.
        scores: Of the objects on which the loss was found ``(N, W)``.
        loss: The loss.
    """

    kernel: ExplicitKernel
    penalty: float
    scores: NDArray[np.float64]
    loss: float


def select(
    kernels: Sequence[ExplicitKernel],
    target: Classes | Numbers,
    train: Labeled,
    valid: Labeled,
    splits: Sequence[Split] = (),
    penalties: Sequence[float] = CANDIDATES,
) -> Selected:
    """Return the kernel and the C with the smallest loss.

    The loss is that of a cross-validation or, without splits, on the validation objects.

    Args:
        kernels: The candidates; each is fitted to the training objects.
        target: What is predicted.
        train: Training objects and their encoded targets.
        valid: Validation objects and their encoded targets.
        splits: Rows of the training objects to fit to and to test on; each row is tested once. For
            kernels that learn nothing from targets, since a kernel is fitted once.
        penalties: The candidates for C, in ascending order.
    """
    best: Selected | None = None
    for kernel in kernels:
        features, basis = compressed(fit_kernel(kernel, target, *train))
        if splits:
            truth = train[1]
            trials: list[Any] = [
                (solver(target, features[rows], truth[rows]), features[tested], tested)
                for rows, tested in splits
            ]
        else:
            truth, held_out = valid[1], kernel.transform(valid[0])
            held_out = held_out if basis is None else held_out @ basis.T
            trials = [(solver(target, features, train[1]), held_out, slice(None))]
        last = np.inf
        for penalty in penalties:
            scores = np.empty((len(truth), target.width))
            for solve, own, rows in trials:
                scores[rows] = scores_of(own, *solve(penalty))
            loss = target.metrics(scores, truth)["valid_loss"]
            if loss > last:
                break  # the loss has one minimum along the path of C
            last = loss
            if best is None or loss <= best.loss:
                best = Selected(kernel, penalty, scores, loss)
    assert best is not None
    return best


def splits_of(values: NDArray[np.int64], groups: NDArray[Any] | None) -> list[Split]:
    """Return the rows to fit to and to test on, in up to five parts with the classes' proportions.

    Args:
        values: The class of each row.
        groups: The group of each row; no group is on both sides. None for no groups.

    Returns:
        The parts; none if one of them would leave a single class to fit to.
    """
    counts = np.bincount(values)
    least = counts[counts > 0].min()
    if groups is None:
        count = min(_FOLDS, least)
        parts: Any = StratifiedKFold(max(count, 2))
    else:
        count = min(_FOLDS, least, len(np.unique(groups)))
        parts = StratifiedGroupKFold(max(count, 2))
    if count < 2:
        return []
    found = list(parts.split(np.zeros(len(values)), values, groups))
    is_usable = all(len(np.unique(values[rows])) > 1 and len(tested) for rows, tested in found)
    return found if is_usable else []
