"""The choice of a kernel and of its machine's penalty, on objects held out from the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from representer.estimators.classes import Classes
from representer.estimators.kernel_machine import (
    FeatureKernel,
    KernelMachine,
    Rows,
    fitted_rows,
    is_process,
)
from representer.estimators.linear_solution import Solution, scores_of, solver
from representer.estimators.pool import Moments
from representer.estimators.targets import Column

CANDIDATES = (1.0, 3.0, 10.0, 30.0, 100.0)  # of C, the inverse of the L2 penalty
ENOUGH = 200  # validation objects that tell the candidates apart; with fewer, folds do
_FOLDS = 5

Labeled = tuple[Sequence[Any], NDArray[Any]]
Split = tuple[NDArray[np.intp], NDArray[np.intp]]


class Selected(NamedTuple):
    """The kernel and the C with the smallest loss.

    Attributes:
        kernel: Fitted to the training objects.
        rows: Of these objects, see `fitted_rows`.
        penalty: C.
        scores: Of the objects on which the loss was found ``(N, W)``.
        loss: The loss.
    """

    kernel: FeatureKernel
    rows: Rows
    penalty: float
    scores: NDArray[np.float64]
    loss: float


class _Trial(NamedTuple):
    """A function from C to a solution, features to test it on, and their places."""

    solve: Callable[[float], Solution]
    tested: Any
    places: Any


def fit_machine(
    kernels: Sequence[FeatureKernel],
    target: Column,
    objects: Any,
    values: NDArray[Any],
    count: int,
    groups: NDArray[Any] | None,
    penalties: Sequence[float] = CANDIDATES,
    *,
    is_supervised: bool = False,
    weights: NDArray[np.float64] | None = None,
) -> tuple[KernelMachine, Moments]:
    """Return the machine of all objects, and moments of some by a machine without them.

    Kernel and C are those with the smallest loss on the validation objects. If these are few, which
    does not tell the candidates apart, or if there are groups, such as subjects, which differ too
    much, the loss is that of a cross-validation on the training objects.

    Args:
        kernels: The candidates.
        target: What is predicted.
        objects: Training and validation objects, as the kernels take them.
        values: Their encoded targets.
        count: Number of training objects, which come first.
        groups: The group of each training object, or None.
        penalties: The candidates for C, in ascending order.
        is_supervised: The kernels learn from targets.
        weights: Of all objects ``(N, 1)``, or None.

    Returns:
        The machine, and the moments of the validation objects or, without any, of the training
        objects.
    """
    train, valid = (objects[:count], values[:count]), (objects[count:], values[count:])
    of_train = None if weights is None else weights[:count]
    held_out = len(valid[1])
    process = is_process(kernels[0], target)  # which has nothing to choose
    splits: list[Split] = []
    if not held_out or (
        not process and (held_out < ENOUGH or (groups is not None and not is_supervised))
    ):
        splits = splits_of(target, train[1], groups)
        if not splits and not held_out:
            splits = splits_of(target, train[1], None)
    if not held_out and not splits:  # too few objects to choose anything
        machine = KernelMachine.fit(kernels[0], target, objects, values, penalties[0], weights)
        return machine, machine.moments(objects)
    chosen = select(
        kernels, target, train, valid, splits, penalties, is_supervised=is_supervised,
        weights=weights,
    )  # fmt: skip
    kernel: Any = chosen.kernel
    moments: Moments = chosen.scores, np.zeros_like(chosen.scores)
    if held_out and (splits or process):
        penalty = chosen.penalty
        machine = KernelMachine.of_rows(kernel, target, chosen.rows, train[1], penalty, of_train)
        moments = machine.moments(valid[0])
    again: Any = clone(kernel)
    penalty = chosen.penalty
    del chosen, kernel  # and the features of the training objects
    return KernelMachine.fit(again, target, objects, values, penalty, weights), moments


def select(
    kernels: Sequence[FeatureKernel],
    target: Column,
    train: Labeled,
    valid: Labeled,
    splits: Sequence[Split] = (),
    penalties: Sequence[float] = CANDIDATES,
    *,
    is_supervised: bool = False,
    weights: NDArray[np.float64] | None = None,
) -> Selected:
    """Return the kernel and the C with the smallest loss.

    The loss is that of a cross-validation or, without splits, on the validation objects. The noise
    of a Gaussian process is the only candidate for its C. Supervised kernels are fitted again to
    each part of a cross-validation, because they learn from targets.
    """
    best: Selected | None = None
    count = len(train[1])
    of_train, of_truth = (
        None if weights is None else weights[part]
        for part in (slice(count), slice(count) if splits else slice(count, None))
    )
    for kernel in kernels:
        rows = fitted_rows(kernel, target, *train)
        truth = train[1] if splits else valid[1]
        if not splits:
            trials = [_held_out(kernel, target, rows, train[1], valid[0], of_train)]
        elif is_supervised:
            trials = [_refitted(kernel, target, train, split, of_train) for split in splits]
        else:
            trials = []
            for own, tested in splits:
                of_own = None if of_train is None else of_train[own]
                solve = solver(target, rows[0][own], truth[own], of_own)
                trials.append(_Trial(solve, rows[0][tested], tested))
        process: Any = kernel if is_process(kernel, target) else None
        last = np.inf
        for penalty in penalties if process is None else [1 / (2 * process.noise_)]:
            scores = np.empty((len(truth), target.width))
            for trial in trials:
                scores[trial.places] = scores_of(trial.tested, *trial.solve(penalty))
            loss = target.metrics(scores, truth, of_truth)["valid_loss"]
            if loss > last:
                break  # the loss has one minimum along the path of C
            last = loss
            if best is None or loss <= best.loss:
                best = Selected(kernel, rows, penalty, scores, loss)
    assert best is not None
    return best


def splits_of(target: Column, values: NDArray[Any], groups: NDArray[Any] | None) -> list[Split]:
    """Return the rows to fit to and to test on, in up to five parts.

    Args:
        target: The parts have the proportions of its classes, if it has classes.
        values: Its encoded values.
        groups: The group of each row; no group is on both sides. None for no groups.

    Returns:
        The parts; none if one of them would leave a single class to fit to.
    """
    is_class = isinstance(target, Classes)
    labels = values if is_class else np.zeros(len(values), np.int64)
    counts = np.bincount(labels)
    count = min(_FOLDS, counts[counts > 0].min(initial=_FOLDS), len(values))
    if groups is not None:
        count = min(count, len(np.unique(groups)))
    if count < 2:
        return []
    if groups is not None:
        parts: Any = (StratifiedGroupKFold if is_class else GroupKFold)(count)
    else:
        parts = StratifiedKFold(count) if is_class else KFold(count, shuffle=True, random_state=0)
    found = list(parts.split(np.zeros(len(labels)), labels, groups))
    least = 2 if is_class else 1
    is_usable = all(len(np.unique(labels[rows])) >= least and len(t) for rows, t in found)
    return found if is_usable else []


def _held_out(
    kernel: FeatureKernel,
    target: Column,
    rows: Rows,
    values: NDArray[Any],
    objects: Any,
    weights: NDArray[np.float64] | None,
) -> _Trial:
    """Return the trial with validation objects."""
    features, basis = rows
    tested: Any = kernel.transform(objects)
    tested = tested if basis is None else tested @ basis.T
    return _Trial(solver(target, features, values, weights), tested, slice(None))


def _refitted(
    kernel: FeatureKernel,
    target: Column,
    train: Labeled,
    split: Split,
    weights: NDArray[np.float64] | None,
) -> _Trial:
    """Return the trial with one part of the training objects and a kernel fitted to the others."""
    rows, tested = split
    own: Any = clone(kernel)
    some, others = ([train[0][row] for row in part] for part in split)
    values = train[1][rows]
    fitted = fitted_rows(own, target, some, values)
    of_rows = None if weights is None else weights[rows]
    return _held_out(own, target, fitted, values, others, of_rows)._replace(places=tested)
