"""The kernel half of an estimator: a linear model on the features of an exact kernel."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import clone

from representer.data.splits import Splits
from representer.errors import RepresenterError, say
from representer.estimators import linear_models
from representer.estimators.targets import Classes, Column, Moments, Numbers, splits_of
from representer.kernels.kmer_kernel import inner_products
from representer.storage.run import RunFiles, RunFolder

JITTER = 1e-12
DESCRIPTION, ARRAYS = "kernel.json", "kernel.safetensors"


@dataclass(frozen=True)
class SparseBasis:
    """The basis of rows of sparse features: combinations ``(R, M)`` of features ``(M, F)``."""

    combinations: NDArray[np.float64]
    features: Any

    def coordinates(self, features: Any) -> NDArray[np.float64]:
        """Return the rows of other features."""
        return (features @ self.features.T).toarray() @ self.combinations.T

    def of_features(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients of features from those of rows ``(W, R)``."""
        return np.asarray((coefficients @ self.combinations) @ self.features)


# of training objects, and the basis of their space
Rows = tuple[Any, NDArray[np.float64] | SparseBasis | None]


class FeatureKernel(Protocol):
    """A kernel that has features, learned from training objects.

    Either their inner products are the kernel, or it has the method ``whitening``, as
    `SubtreeKernel` has: the matrix from features to such coordinates. For numbers, a machine on
    these is a Gaussian process, and ``noise_`` of the kernel is the variance of its noise.
    """

    def fit_transform(
        self, X: Sequence[Any], targets: NDArray[np.float64] | None = None
    ) -> linear_models.Features:
        """Learn the features and return them ``(N, F)``.

        Targets ``(N, C)`` may weight them: indicators of classes, or a number.
        """
        ...

    def transform(self, X: Sequence[Any]) -> linear_models.Features:
        """Return the features ``(N, F)``."""
        ...


def repeated_rows(digests: Any) -> list[NDArray[np.intp]]:
    """Return the rows of each digest that several have."""
    _, numbers, counts = np.unique(digests, return_inverse=True, return_counts=True)
    return [np.flatnonzero(numbers == number) for number in np.flatnonzero(counts > 1)]


def is_process(kernel: Any, target: Column) -> bool:
    """Return True if a machine on the kernel is a Gaussian process."""
    return hasattr(kernel, "whitening") and isinstance(target, Numbers)


def fitted_rows(kernel: Any, target: Column, objects: Sequence[Any], values: NDArray[Any]) -> Rows:
    """Fit a kernel to objects and their targets, and return them as `compressed` does."""
    features = kernel.fit_transform(objects, linear_models.as_columns(target, values))
    return compressed(kernel, features, is_exact=is_process(kernel, target))


def _solver(kernel: Any, *parts: Any) -> Callable[[float], linear_models.Solution]:
    by_squares = getattr(kernel, "by_squares", False) and isinstance(parts[1], np.ndarray)
    return linear_models.solver(*parts, by_squares=by_squares)


def compressed(kernel: Any, features: linear_models.Features, *, is_exact: bool = False) -> Rows:
    """Return rows whose inner products are a fitted kernel, from features ``(N, F)``.

    The rows are ``(N, R)``. Beside them comes the basis ``(R, F)`` of their coordinates: other
    features times its transpose are their rows, and coefficients of rows times the basis are those
    of features. Explicit features that are sparse, or no more than N, are the rows, without a
    basis, and so is the Gram matrix for an exact process, whose landmarks are all objects. Of at
    most ``most_rows`` objects of a kernel that has this attribute, sparse ones are made rows, too.
    """
    if hasattr(kernel, "whitening"):
        if is_exact and kernel.width == len(features):
            return features, None
        whitening = kernel.whitening()
        return features @ whitening, whitening.T
    shape: Any = features.shape
    count, width = shape
    is_sparse = not isinstance(features, np.ndarray)
    if width <= count or (is_sparse and count > getattr(kernel, "most_rows", 0)):
        return features, None
    values, vectors = np.linalg.eigh(inner_products(features))
    is_kept = values > values[-1] * 1e-12  # the others are rounding errors
    lengths = np.sqrt(values[is_kept])
    rows, combinations = vectors[:, is_kept] * lengths, (vectors[:, is_kept] / lengths).T
    return rows, SparseBasis(combinations, features) if is_sparse else combinations @ features


@dataclass(frozen=True)
class _Saved:
    """One machine in kernel.json."""

    penalty: float
    seconds: float
    tokens: dict[str, tuple[str, ...]]
    ceiling: float = 0.0


@dataclass(frozen=True)
class _SavedMachines:
    """kernel.json."""

    machines: tuple[_Saved | None, ...]  # None where a machine failed


@dataclass
class KernelMachine:
    r"""A linear model on the features of a kernel, for one target.

    The variance of a Gaussian process, noise included, is

    .. math:: v(x) = c - k_x^\top P\, k_x, \qquad
        P = s^2\, B (I - \sigma^2 (Z^\top Z + \sigma^2 I)^{-1}) B^\top

    with :math:`k_x` the features, B the whitening, Z the training objects' coordinates,
    :math:`\sigma^2` the noise and s the standard deviation of the targets. If every training object
    is a landmark, :math:`P = s^2 (K + \sigma^2 I)^{-1}`.
    """

    kernel: Any  # the fitted kernel
    # ``(W, F)``, one row per class or number
    coefficients: NDArray[np.float64] | linear_models.CentroidCoefficients
    intercepts: NDArray[np.float64]  # ``(W,)``
    penalty: float  # C, the inverse of the L2 penalty
    seconds: float = 0.0  # time of fitting
    ceiling: float = 0.0  # c; 0 if the machine is no Gaussian process
    precision: NDArray[np.float32] | None = None  # p ``(F, F)``
    # features of training objects ``(M, F)``, of which `posterior` knows the numbers; None for
    # classes, and for kernels with landmarks
    measured: Any = None

    @classmethod
    def fit(
        cls, kernel: FeatureKernel, target: Column, objects: Sequence[Any], values: NDArray[Any],
        penalty: float, weights: NDArray[np.float64] | None = None,
    ) -> Self:  # fmt: skip
        """Return the machine of some objects; the noise of a Gaussian process replaces C.

        The objects may have weights ``(N, 1)``, by which a process divides the noise of each.
        """
        rows = fitted_rows(kernel, target, objects, values)
        return cls.of_rows(kernel, target, rows, values, penalty, weights)

    @classmethod
    def of_rows(
        cls, kernel: Any, target: Column, rows: Rows, values: NDArray[Any], penalty: float,
        weights: NDArray[np.float64] | None = None,
    ) -> Self:  # fmt: skip
        """Return the machine of the objects that a kernel was fitted to, see `fit`."""
        if is_process(kernel, target):
            return cls.process(kernel, target, rows, values, weights)[0]
        solution = _solver(kernel, target, rows[0], values, weights)(penalty)
        return cls.solved(kernel, target, rows, solution, penalty)

    @classmethod
    def solved(
        cls,
        kernel: Any,
        target: Column,
        rows: Rows,
        solution: linear_models.Solution,
        penalty: float,
    ) -> Self:
        """Return the machine with the coefficients of rows, and intercepts."""
        (_, basis), (coefficients, intercepts) = rows, solution
        if isinstance(basis, SparseBasis):
            coefficients = basis.of_features(coefficients)
        elif basis is not None:
            coefficients = coefficients @ basis
        measured = None
        if isinstance(target, Numbers) and not hasattr(kernel, "landmark_features"):
            measured = linear_models.kept_rows(*rows)
        return cls(kernel, coefficients, intercepts, penalty, measured=measured)

    @classmethod
    def process(
        cls, kernel: Any, target: Column, rows: Rows, values: NDArray[Any],
        weights: NDArray[np.float64] | None = None, digests: Any = (),
    ) -> tuple[Self, Moments]:  # fmt: skip
        """Return a Gaussian process, and moments of each object by the process without it.

        Both are exact: generalized least squares for the mean of all, and the inverse of the
        covariance for what leaving out a row changes. Rows of equal digests, if there are any, are
        copies, which are left out together.

        References:
            Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, (5.12).
        """
        features, basis = rows
        assert not isinstance(basis, SparseBasis)  # its kernels have other features
        y, noise = linear_models.as_columns(target, values), kernel.noise_
        precisions = np.ones(len(y)) if weights is None else np.maximum(weights[:, 0], JITTER)
        count, scaled, near = len(y), features, features
        if basis is None:  # the features are the Gram matrix
            covariance = features + np.diag(noise / precisions)
            inverse = cho_solve(cho_factor(covariance, overwrite_a=True), np.eye(count))
            reduced, of_rows = inverse, inverse.sum(1)
            solved, diagonal = inverse @ y, np.diag(inverse)
        else:
            scaled = features * precisions[:, None]
            inner = cho_factor(features.T @ scaled + noise * np.eye(features.shape[1]))
            reduced = np.eye(len(basis)) - noise * cho_solve(inner, np.eye(len(basis)))
            near = cho_solve(inner, scaled.T)  # Woodbury's identity
            of_rows = (precisions - scaled @ near.sum(1)) / noise
            solved = (precisions[:, None] * y - scaled @ (near @ y)) / noise
            diagonal = (precisions - (scaled * near.T).sum(1)) / noise
        intercept = solved.sum(0) / of_rows.sum()
        residuals = solved - of_rows[:, None] * intercept
        exact = diagonal - of_rows**2 / of_rows.sum()
        coefficients = residuals.T if basis is None else (features.T @ residuals).T @ basis
        spread = float(y.var())
        ceiling = spread * float(kernel.weights_.sum() + noise)
        left = np.maximum(exact, JITTER)[:, None]
        errors, variances = residuals / left, spread / left
        for copies in repeated_rows(digests):
            if basis is None:
                block = reduced[np.ix_(copies, copies)]
            else:
                block = np.diag(precisions[copies]) - scaled[copies] @ near[:, copies]
                block = block / noise
            block = block - np.outer(of_rows[copies], of_rows[copies]) / of_rows.sum()
            apart = np.linalg.inv(block)
            errors[copies] = apart @ residuals[copies]
            variances[copies] = spread * np.diag(apart)[:, None]
        if basis is not None:
            reduced = basis.T @ reduced @ basis
        machine = cls(
            kernel, coefficients, intercept, 1 / (2 * noise), 0.0, ceiling,
            (spread * reduced).astype(np.float32),
        )  # fmt: skip
        if basis is not None:  # what the landmarks do not span
            variances += spread * (kernel.weights_.sum() - (features**2).sum(1, keepdims=True))
        return machine, (y - errors, variances)

    def scores(self, objects: Sequence[Any]) -> NDArray[np.float64]:
        """Return the score of each class, or standardized number, before the link ``(N, W)``."""
        return linear_models.scores_of(
            self.kernel.transform(objects), self.coefficients, self.intercepts
        )

    def moments(self, objects: Sequence[Any]) -> Moments:
        """Return the scores, and the variances of a Gaussian process or else 0."""
        features = self.kernel.transform(objects)
        scores = linear_models.scores_of(features, self.coefficients, self.intercepts)
        if self.precision is None:
            return scores, np.zeros_like(scores)
        explained = ((features @ self.precision) * features).sum(1)
        return scores, np.maximum(self.ceiling - explained, 0.0)[:, None]

    @property
    def has_posterior(self) -> bool:
        """Return True if the machine is a process: it knows how its objects vary together."""
        return self.measured is not None or hasattr(self.kernel, "landmark_features")

    def _measured(self) -> Any:
        return self.kernel.landmark_features() if self.measured is None else self.measured

    def landmark_scores(self) -> NDArray[np.float64]:
        """Return the scores of the training objects that are kept ``(M, W)``."""
        return linear_models.scores_of(self._measured(), self.coefficients, self.intercepts)

    def posterior(self, objects: Sequence[Any]) -> tuple[NDArray[np.float64], float]:
        """Return the covariance of the objects' true scores ``(N, N)``, and the noise's variance.

        Of a ridge regression on features, whose penalty is the noise of a Gaussian process relative
        to its kernel, the training objects that are kept are those measured so far.
        """
        features = self.kernel.transform(objects)
        if self.precision is not None:
            spread = self.ceiling / float(self.kernel.weights_.sum() + self.kernel.noise_)
            prior = spread * self.kernel(objects)
            noise = spread * self.kernel.noise_
            return prior - features @ self.precision.astype(np.float64) @ features.T, noise
        seen, noise = self._measured(), 1 / (2 * self.penalty)
        inner, across, prior = (linear_models.dense_of(a @ b.T) for a, b in
                                ((seen, seen), (features, seen), (features, features)))  # fmt: skip
        inner.flat[:: len(inner) + 1] += noise
        return prior - across @ cho_solve(cho_factor(inner), across.T), noise

    def only(self, output: int) -> KernelMachine:
        """Return the machine of one of several outputs."""
        rows = slice(output, output + 1)
        return replace(self, coefficients=self.coefficients[rows], intercepts=self.intercepts[rows])

    @property
    def size(self) -> int:
        """Number of coefficients and intercepts."""
        return self.coefficients.size + self.intercepts.size

    @property
    def description(self) -> str:
        """The kernel, the number of its features, and the penalty."""
        name, width = type(self.kernel).__name__, self.coefficients.shape[1]
        if isinstance(self.coefficients, linear_models.CentroidCoefficients):
            of_classes = f"{len(self.coefficients.centroids.indptr) - 1:,} centroids of classes"
            return f"{name}, a linear model on {width:,} features, by {of_classes}"
        if self.precision is not None:
            return f"{name}, a Gaussian process with {width:,} landmarks"
        return f"{name}, a linear model on {width:,} features with C = {self.penalty:g}"

    def centered_score(self, objects: Any, output: int) -> float:
        """Return the score of the only object minus the mean of its scores, or a single score."""
        scores = self.scores(objects)[0]
        return float(scores[output] - scores.mean()) if len(scores) > 1 else float(scores[0])

    def centered(self, output: int) -> tuple[NDArray[np.float64], float]:
        """Return coefficients ``(F,)`` and intercept of an output minus the mean of all."""
        if len(self.intercepts) == 1:
            return self.coefficients[0], float(self.intercepts[0])
        column = self.coefficients[output] - self.coefficients.mean(0)
        return column, float(self.intercepts[output] - self.intercepts.mean())


def write_machines(run: RunFolder, machines: Sequence[KernelMachine | None]) -> None:
    """Write what `read_machines` reads into a run folder."""
    described, tensors = [], {}
    for k, machine in enumerate(machines):
        if machine is None:
            described.append(None)
            continue
        tokens, arrays = machine.kernel.fitted()
        dense = machine.coefficients
        is_dense = isinstance(dense, np.ndarray)
        arrays |= {"coefficients": dense} if is_dense else dense.arrays()
        arrays["intercepts"] = machine.intercepts
        if machine.precision is not None:
            arrays["precision"] = machine.precision
        arrays |= linear_models.packed_rows(machine.measured)
        for name, array in arrays.items():
            tensors[f"{k}/{name}"] = torch.from_numpy(np.ascontiguousarray(array))
        saved = {"penalty": machine.penalty, "seconds": machine.seconds, "tokens": tokens}
        described.append(saved | {"ceiling": machine.ceiling})
    run.write_json(DESCRIPTION, {"machines": described})
    run.write_tensors(ARRAYS, tensors)


def read_machines(
    files: RunFiles, new_kernel: Callable[[], Any], widths: Sequence[int]
) -> tuple[KernelMachine | None, ...]:
    """Return what `write_machines` wrote.

    Raises:
        DataError: A file is missing, or they do not fit together.
        CheckpointError: The arrays are damaged.
    """
    described = files.read(DESCRIPTION, _SavedMachines).machines
    tensors, _ = files.tensors(ARRAYS, lambda forms: None)

    def restored(k: int, width: int) -> KernelMachine | None:
        start, saved = f"{k}/", described[k]
        if saved is None:
            return None
        arrays = {n[len(start) :]: t.numpy() for n, t in tensors.items() if n.startswith(start)}
        kernel = new_kernel().restore(saved.tokens, arrays)
        coefficients: Any = linear_models.read_coefficients(arrays, kernel.width)
        coefficients = arrays["coefficients"] if coefficients is None else coefficients
        intercepts = arrays["intercepts"]
        if coefficients.shape != (width, kernel.width) or intercepts.shape != (width,):
            raise ValueError(f"{coefficients.shape} coefficients for {kernel.width} features")
        precision = arrays.get("precision")
        if precision is not None and precision.shape != (kernel.width, kernel.width):
            raise ValueError(f"{precision.shape} precisions of {kernel.width} features")
        measured = linear_models.unpacked_rows(arrays, kernel.width)
        parts = coefficients, intercepts, saved.penalty, saved.seconds, saved.ceiling, precision
        return KernelMachine(kernel, *parts, measured)

    def every() -> tuple[KernelMachine | None, ...]:
        if len(described) != len(widths):
            raise ValueError(f"{len(described)} machines for {len(widths)} targets")
        return tuple(restored(k, width) for k, width in enumerate(widths))

    return files.parsed(ARRAYS, every)


# The choice of a kernel and of its machine's penalty, on objects held out from the machine.

CANDIDATES = (1.0, 3.0, 10.0, 30.0, 100.0)  # of C, the inverse of the L2 penalty
LEFT_OUT_CANDIDATES = tuple(4.0**k for k in range(-4, 6))
ENOUGH = 200  # validation objects that tell the candidates apart; with fewer, folds do

Labeled = tuple[Sequence[Any], NDArray[Any]]
Fold = tuple[NDArray[np.intp], NDArray[np.intp]]  # to fit to, and to test on


class Selected(NamedTuple):
    """The kernel and the C with the smallest loss."""

    kernel: FeatureKernel  # fitted to the training objects
    rows: Rows  # of these objects, see `fitted_rows`
    penalty: float  # C
    scores: NDArray[np.float64]  # of the objects on which the loss was found ``(N, W)``
    loss: float


class _Trial(NamedTuple):
    """A function from C to a solution, features to test it on, and their places."""

    solve: Callable[[float], linear_models.Solution]
    tested: Any
    places: Any


LARGE = 2**22  # entries of sparse features, 32 MiB
PASSES = 4  # readings of all objects that the choice of a machine takes as long as
LONG = 2.0  # seconds that are announced


def announce(
    kernels: Sequence[FeatureKernel], target: Column, objects: Any, values: NDArray[Any]
) -> None:
    """Say about how long `fit_machine` takes, if it is long, by samples of two sizes.

    What a fit costs at any size, such as a table of all k-mers, is not multiplied by the objects.
    """
    count, seconds = min(200, len(values) // 40), dict[int, float]()
    few = -(-count // 4)
    for size in (few, few, count) if count > 1 else ():  # the first one warms up
        rows, kernel = range(0, len(values), len(values) // size), cast("Any", clone(kernels[0]))
        some, wall, used = [objects[i] for i in rows], time.perf_counter(), time.process_time()
        with contextlib.suppress(RepresenterError, ValueError):  # a sample may be too small
            kernel.fit_transform(some, linear_models.as_columns(target, values[rows]))
        # other processes interrupt a short sample, and a library may use several threads
        seconds[len(rows)] = min(time.perf_counter() - wall, time.process_time() - used)
    if len(seconds) < 2:
        return
    (few, least), (many, most) = seconds.items()
    whole = most + max(most - least, 0) / (many - few) * (len(values) - many)
    whole *= 1.5 if is_process(kernels[0], target) else PASSES * len(kernels)
    if whole > LONG:
        shown = f"{whole / 60:.0f} min" if whole > 90 else f"{whole:.0f} s"
        say(f"the kernel machine takes about {shown}")


def fit_machine(
    kernels: Sequence[FeatureKernel], target: Column, objects: Any, values: NDArray[Any],
    count: int, groups: NDArray[Any] | None, penalties: Sequence[float] = CANDIDATES, *,
    is_supervised: bool = False, weights: NDArray[np.float64] | None = None, digests: Any = (),
) -> tuple[KernelMachine, Moments]:  # fmt: skip
    """Return the machine of all objects, and moments of some by a machine without them.

    Kernel and C are those with the smallest loss on the validation objects. If these are few, which
    does not tell the candidates apart, or if there are groups, such as subjects, which differ too
    much, the loss is that of a cross-validation on the training objects. A Gaussian process chooses
    nothing, and its moments of an object are those of the process without this object. The
    ``count`` training objects come first, then those of validation, which the moments are of, if
    there are any. Digests are numbers by which training objects are equal, none if all of them
    differ; ``is_supervised`` kernels learn from targets.
    """
    train, valid = (objects[:count], values[:count]), (objects[count:], values[count:])
    of_train = None if weights is None else weights[:count]
    held_out = len(valid[1])
    if is_process(kernels[0], target):
        parts = objects, values, count, groups, weights, digests
        return _fit_process(kernels[0], target, *parts)
    is_column = isinstance(target, Classes | Numbers)
    most = getattr(kernels[0], "leaves_one_out", 0)
    if len(values) <= most and groups is None and is_column:
        return _fit_left_out(kernels, target, objects, values, count, weights)
    if linear_models.has_many(target) and not hasattr(kernels[0], "whitening"):
        folds: list[Fold] = []
        if not held_out:
            folds = splits_of(target, values, groups, digests).folds()
            folds = folds or Splits(count, groups=groups, digests=digests).folds()
        return _fit_many(kernels[0], target, objects, values, count, folds, weights)
    splits: list[Fold] = []
    if held_out < ENOUGH or (groups is not None and not is_supervised):
        splits = splits_of(target, train[1], groups, digests).folds()
        if not splits and not held_out:
            splits = splits_of(target, train[1]).folds()
    if not held_out and not splits:  # too few objects to choose anything
        machine = KernelMachine.fit(kernels[0], target, objects, values, penalties[0], weights)
        return machine, machine.moments(objects)
    chosen = select(
        kernels, target, train, valid, splits, penalties, is_supervised=is_supervised,
        weights=weights,
    )  # fmt: skip
    kernel: Any = chosen.kernel
    moments: Moments = chosen.scores, np.zeros_like(chosen.scores)
    if linear_models.few_objects(target, count) and hasattr(kernel, "of_rare"):
        folds, truth = splits or [_last(count, len(values))], train[1] if splits else valid[1]
        scores = linear_models.scores_without(
            kernel.of_rare(), target, objects, values, folds, weights
        )
        scores = scores[: len(truth)] if splits else scores[count:]
        if linear_models.is_ahead(scores, chosen.scores, truth):
            return _fit_many(kernel.of_rare(), target, objects, values, count, splits, weights)
    if held_out and splits:
        penalty = chosen.penalty
        machine = KernelMachine.of_rows(kernel, target, chosen.rows, train[1], penalty, of_train)
        moments = machine.moments(valid[0])
    again: Any = clone(kernel)
    penalty = chosen.penalty
    del chosen, kernel  # and the features of the training objects
    return KernelMachine.fit(again, target, objects, values, penalty, weights), moments


def _fit_left_out(
    kernels: Sequence[Any], target: Column, objects: Any, values: NDArray[Any], count: int,
    weights: NDArray[np.float64] | None,
) -> tuple[KernelMachine, Moments]:  # fmt: skip
    """Return a ridge regression whose kernel and C have the smallest loss of left-out scores.

    It is that of logits or, of kernels ``by_errors``, the square of their errors. Beside it come
    these scores.
    """
    least, best = np.inf, None
    for kernel in kernels:
        features = kernel.fit_transform(objects, linear_models.as_columns(target, values))
        solve = linear_models.left_out_solver(target, features, values, weights)
        for penalty in LEFT_OUT_CANDIDATES:
            fit = solve(penalty)
            loss = fit.error
            if not getattr(kernel, "by_errors", False):
                loss = target.metrics(fit.scores, values, weights)["valid_loss"]
            if loss < least:
                least, best = loss, (kernel, features, fit, penalty)
    assert best is not None
    kernel, features, fit, penalty = best
    machine = KernelMachine.solved(kernel, target, (features, None), fit.solution, penalty)
    held_out = fit.scores[count:] if count < len(values) else fit.scores
    return machine, (held_out, np.zeros_like(held_out))


def _fit_many(
    kernel: Any, target: Column, objects: Any, values: NDArray[Any], count: int,
    folds: Sequence[Fold], weights: NDArray[np.float64] | None,
) -> tuple[KernelMachine, Moments]:  # fmt: skip
    """Return the machine of the centroids of classes, and scores of objects held out.

    These are the validation objects or, without any, the training objects, each by a machine of the
    other folds. By them, scores become logits.
    """
    total = len(values)
    held_out = np.arange(count if count < total else 0, total)
    folds = [_last(count, total)] if count < total else folds or [(held_out, held_out)]
    scores = linear_models.scores_without(kernel, target, objects, values, folds, weights)[held_out]
    scale = linear_models.logit_scale(scores, values[held_out])
    every = linear_models.centroid_machine(
        kernel, target, objects, values, np.arange(total), weights
    )
    solution = every[1].scaled(scale), scale * every[2]
    machine = KernelMachine(every[0], *solution, 1 / (2 * linear_models.SHRINKAGE))
    scores = scale * scores
    return machine, (scores, np.zeros_like(scores))


def _last(count: int, total: int) -> Fold:
    """Return the fold of training objects, and of the validation objects behind them."""
    return np.arange(count), np.arange(count, total)


def _fit_process(
    kernel: Any, target: Column, objects: Any, values: NDArray[Any], count: int,
    groups: NDArray[Any] | None, weights: NDArray[np.float64] | None, digests: Any = (),
) -> tuple[KernelMachine, Moments]:  # fmt: skip
    """Return a Gaussian process and moments, see `fit_machine`; it has nothing to choose.

    The moments are of the process without the object itself and its copies or, with groups, by one
    that is fitted again without its group.
    """
    total = len(values)
    rows = fitted_rows(kernel, target, objects, values)
    are_copies = count == total and groups is not None and np.array_equal(groups, digests)
    machine, moments = KernelMachine.process(
        kernel, target, rows, values, weights, digests if are_copies else ()
    )
    splits: list[Fold] = []
    if groups is not None and not are_copies:
        of_valid = np.arange(count), np.arange(count, total)
        splits = [of_valid] if count < total else splits_of(target, values, groups).folds()
    for some, tested in splits:
        again: Any = clone(kernel)
        chosen = [objects[row] for row in some]
        of_rows = None if weights is None else weights[some]
        fold = KernelMachine.fit(again, target, chosen, values[some], 1.0, of_rows)
        for every, moment in zip(moments, fold.moments([objects[r] for r in tested]), strict=True):
            every[tested] = moment
    held_out = slice(count if count < total else 0, None)
    return machine, (moments[0][held_out], moments[1][held_out])


def select(
    kernels: Sequence[FeatureKernel], target: Column, train: Labeled, valid: Labeled,
    splits: Sequence[Fold] = (), penalties: Sequence[float] = CANDIDATES, *,
    is_supervised: bool = False, weights: NDArray[np.float64] | None = None,
) -> Selected:  # fmt: skip
    """Return the kernel and the C with the smallest loss.

    The loss is that of a cross-validation or, without splits, on the validation objects. Supervised
    kernels are fitted again to each part of a cross-validation, because they learn from targets.
    """
    best: Selected | None = None
    count = len(train[1])
    of_train, of_truth = (
        None if weights is None else weights[chosen]
        for chosen in (slice(count), slice(count) if splits else slice(count, None))
    )
    for kernel in kernels:
        rows = fitted_rows(kernel, target, *train)
        truth = train[1] if splits else valid[1]
        if not splits:
            trials = [_held_out(kernel, target, rows, train[1], valid[0], of_train)]
        elif is_supervised:
            trials = [_refitted(kernel, target, train, split, of_train) for split in splits]
        else:
            trials = _trials(kernel, target, rows[0], truth, splits, of_train)
        last = np.inf
        for penalty in penalties:
            scores = np.empty((len(truth), target.width))
            for trial in trials:
                scores[trial.places] = linear_models.scores_of(trial.tested, *trial.solve(penalty))
            loss = target.metrics(scores, truth, of_truth)["valid_loss"]
            if loss > last:
                break  # the loss has one minimum along the path of C
            last = loss
            if best is None or loss <= best.loss:
                best = Selected(kernel, rows, penalty, scores, loss)
    assert best is not None
    return best


def _trials(
    kernel: FeatureKernel, target: Column, features: Any, truth: NDArray[Any],
    splits: Sequence[Fold], weights: NDArray[np.float64] | None,
) -> list[_Trial]:  # fmt: skip
    """Return the trials of a cross-validation, which share large sparse features.

    Tested objects weigh nothing there: copies, and their transposes, take eight times the memory.
    """
    is_shared = isinstance(target, Classes) and getattr(features, "nnz", 0) > LARGE
    is_shared = is_shared and all({*truth[some]} == {*truth} for some, _ in splits)
    shared, trials = linear_models.SharedRows.of(features) if is_shared else None, []
    for some, tested in splits:
        of_rows = np.zeros((len(truth), 1))
        of_rows[some] = 1.0 if weights is None else weights[some]
        parts: Any = shared, truth, of_rows
        if shared is None:
            parts = features[some], truth[some], None if weights is None else of_rows[some]
        trials.append(_Trial(_solver(kernel, target, *parts), features[tested], tested))
    return trials


def _held_out(
    kernel: FeatureKernel, target: Column, rows: Rows, values: NDArray[Any], objects: Any,
    weights: NDArray[np.float64] | None,
) -> _Trial:  # fmt: skip
    """Return the trial with validation objects."""
    features, basis = rows
    tested: Any = kernel.transform(objects)
    if isinstance(basis, SparseBasis):
        tested = basis.coordinates(tested)
    elif basis is not None:
        tested = tested @ basis.T
    return _Trial(_solver(kernel, target, features, values, weights), tested, slice(None))


def _refitted(
    kernel: FeatureKernel, target: Column, train: Labeled, split: Fold,
    weights: NDArray[np.float64] | None,
) -> _Trial:  # fmt: skip
    """Return the trial with one part of the training objects and a kernel fitted to the others."""
    rows, tested = split
    again: Any = clone(kernel)
    some, others = ([train[0][row] for row in numbers] for numbers in split)
    values = train[1][rows]
    fitted = fitted_rows(again, target, some, values)
    of_rows = None if weights is None else weights[rows]
    return _held_out(again, target, fitted, values, others, of_rows)._replace(places=tested)
