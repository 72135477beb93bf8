"""A linear model of one target: softmax or ridge regression of classes, ridge of numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh
from sklearn.base import clone
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from representer.estimators.label_sets import LabelSets
from representer.estimators.targets import Classes, Column
from representer.kernels.kmer_kernel import inner_products
from representer.kernels.text_kernel import unit_rows
from representer.machine import limited, threads_for

# Softmax regression by Newton's method with conjugate gradients.

# largest gradient at the solution, relative to that at 0: of sparse and of dense features
PRECISION, DENSE_PRECISION = 3e-3, 1e-5
INNER = 0.3  # residual of a Newton step, relative to the gradient
_MOST_STEPS, _MOST_PRODUCTS, _MOST_HALVINGS = 100, 250, 50
_SUFFICIENT = 1e-4  # decrease of the loss, relative to its slope
_ROUNDING = 10  # units of rounding in a gradient

Gradient = tuple[Tensor, Tensor]  # of coefficients (F, K) and intercepts (K,)


class Weights(NamedTuple):
    """A point or a direction, with the scores that it gives."""

    coefficients: Tensor  # ``(F, K)``
    intercepts: Tensor  # ``(K,)``
    scores: Tensor  # of the examples ``(N, K)``

    def plus(self, other: Weights, scale: float) -> Weights:
        """Return the sum with a multiple of other weights."""
        return Weights(*_sum(self[:2], other[:2], scale), self.scores + scale * other.scores)


class SoftmaxRegression:
    r"""Minimizes the loss of several classes with an L2 penalty, for one penalty after another.

    .. math::
        \min_{W, b}\; C \sum_i -\log \mathrm{softmax}(W^\top x_i + b)_{y_i} + \tfrac12 \|W\|^2

    The Hessian is never formed: a product with it takes one product with the features and one with
    their transpose. Each call of `fit` starts from the solution of the one before.

    Args:
        features: ``(N, F)``, dense in the precision of the computation, sparse, or `SharedRows`.
        labels: The class of each example ``(N,)``, each from 0 to K - 1.
        weights: Of the losses of the examples ``(N, 1)``; 1 by default.

    References:
        Lin, Weng and Keerthi, Trust Region Newton Method for Large-Scale Logistic Regression,
        JMLR 2008.
    """

    def __init__(
        self, features: Any, labels: NDArray[np.int64], weights: NDArray[np.float64] | None = None
    ) -> None:
        if isinstance(features, np.ndarray):
            self._x = torch.from_numpy(features)
            self._x_transposed, entries, precision = self._x.T, self._x, DENSE_PRECISION
        else:
            self._x, self._x_transposed = SharedRows.of(features)
            entries, precision = self._x.values(), PRECISION
        self._threads = threads_for(entries.numel())
        self._targets = one_hot(torch.from_numpy(labels)).to(self._x.dtype)
        self._rows = None if weights is None else torch.from_numpy(weights).to(self._x.dtype)
        count = self._targets.shape[1]
        coefficients, offsets, scores = (
            self._x.new_zeros(size, layout=torch.strided)
            for size in ((self._x.shape[1], count), (count,), (self._x.shape[0], count))
        )
        self._weights = Weights(coefficients, offsets, scores)
        residuals = 1 / count - self._targets
        # a gradient has rounding errors, which are all that is left if no feature is informative
        errors = (entries.norm() + len(self._targets) ** 0.5) * residuals.norm()
        least = _ROUNDING * torch.finfo(errors.dtype).eps * float(errors)
        self._tolerance = precision * float(self._slopes(residuals)[0].norm()) + least

    def fit(self, penalty: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return coefficients ``(K, F)`` and intercepts ``(K,)``."""
        with limited(self._threads):
            self._minimize(penalty)
        coefficients, intercepts, _ = self._weights
        return coefficients.T.double().numpy(), intercepts.double().numpy()

    def _minimize(self, penalty: float) -> None:
        for _ in range(_MOST_STEPS):
            chances = self._weights.scores.softmax(1)
            slopes, offsets = self._slopes(chances - self._targets)
            gradient = slopes + self._weights.coefficients / penalty, offsets
            if _dot(gradient, gradient) <= self._tolerance**2:
                break
            step = self._newton_step(gradient, chances, penalty)
            moved = self._descend(step, _dot(gradient, step), penalty)
            if moved is None and self._x.dtype == torch.float64:
                break  # rounding errors are all that is left
            if moved is None:  # what float32 rounds away, float64 may tell
                self._x, self._x_transposed = self._x.double(), self._x_transposed.double()
                self._targets = self._targets.double()
                moved = Weights(*(tensor.double() for tensor in self._weights))
            self._weights = moved

    def _newton_step(self, gradient: Gradient, chances: Tensor, penalty: float) -> Weights:
        """Solve H s = -g approximately by conjugate gradients."""
        residual = -gradient[0], -gradient[1]
        direction, square = residual, _dot(residual, residual)
        zeros = torch.zeros_like(gradient[0]), torch.zeros_like(gradient[1])
        step = Weights(*zeros, torch.zeros_like(chances))
        least = INNER**2 * square
        for _ in range(_MOST_PRODUCTS):
            scores = self._x @ direction[0] + direction[1]
            weighted = chances * scores
            slopes, offsets = self._slopes(weighted - chances * weighted.sum(1, keepdim=True))
            product = slopes + direction[0] / penalty, offsets
            if not (curvature := _dot(direction, product)) > 0:
                break
            scale = square / curvature
            step = step.plus(Weights(*direction, scores), scale)
            residual = _sum(residual, product, -scale)
            before, square = square, _dot(residual, residual)
            if square <= least:
                break
            direction = _sum(residual, direction, square / before)
        return step

    def _descend(self, step: Weights, slope: float, penalty: float) -> Weights | None:
        """Return the weights after a step, halved until the loss decreases enough; None if never.

        A step may be huge: chances of 0 and 1 leave nothing of the Hessian but that of the penalty.
        """
        loss = self._loss(self._weights, penalty)
        for halvings in range(_MOST_HALVINGS if slope < 0 else 0):
            moved = self._weights.plus(step, scale := 0.5**halvings)
            if self._loss(moved, penalty) - loss <= _SUFFICIENT * scale * slope:
                return moved
        return None

    def _loss(self, weights: Weights, penalty: float) -> float:
        """Return the objective, divided by C."""
        scores = weights.scores.double()
        losses = scores.logsumexp(1) - (scores * self._targets).sum(1)
        losses = losses if self._rows is None else losses * self._rows[:, 0]
        return float(losses.sum() + weights.coefficients.double().square().sum() / (2 * penalty))

    def _slopes(self, residuals: Tensor) -> Gradient:
        """Return the gradients of coefficients and intercepts for residuals ``(N, K)``."""
        residuals = residuals if self._rows is None else residuals * self._rows
        return self._x_transposed @ residuals, residuals.sum(0)


class SharedRows(NamedTuple):
    """Sparse features as tensors in float32, which several regressions read."""

    rows: Tensor  # ``(N, F)``
    transposed: Tensor  # ``(F, N)``

    @classmethod
    def of(cls, features: Any) -> Any:
        """Return sparse features as tensors; others, and these tensors, as they are."""
        if isinstance(features, np.ndarray | SharedRows):
            return features
        return cls(_tensor(features), _tensor(features.T.tocsr()))

    @property
    def shape(self) -> tuple[int, int]:
        """N and F."""
        return self.transposed.shape[1], self.transposed.shape[0]


def _dot(a: Sequence[Tensor], b: Sequence[Tensor]) -> float:
    """Return the inner product of coefficients and intercepts."""
    return float((a[0].double() * b[0]).sum() + (a[1].double() * b[1]).sum())


def _sum(a: Gradient, b: Gradient, scale: float) -> Gradient:
    """Return a plus a multiple of b."""
    return torch.add(a[0], b[0], alpha=scale), torch.add(a[1], b[1], alpha=scale)


def _tensor(matrix: Any) -> Tensor:
    """Return a sparse matrix as a tensor in float32."""
    index = np.int32 if matrix.nnz < 2**31 else np.int64  # ends of rows reach the entries
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # "in beta state"
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(index, copy=False)),
            torch.from_numpy(matrix.indices.astype(index, copy=False)),
            torch.from_numpy(matrix.data.astype(np.float32, copy=False)),
            size=matrix.shape,
        )


LOGITS = tuple(2.0 ** (k / 4) for k in range(-8, 33))  # factors of the scores of least squares
UNSEEN = 10.0  # logits by which a class without training objects is behind

Features = sparse.csr_array | NDArray[np.float64]
Solution = tuple[NDArray[np.float64], NDArray[np.float64]]  # coefficients (W, F), intercepts (W,)


def as_columns(target: Column, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return indicators of classes ``(N, C)``, or a standardized number ``(N, 1)``."""
    if isinstance(target, Classes):
        return np.eye(target.width)[values]
    if isinstance(target, LabelSets):
        return values
    return (values - np.asarray(target.means)) / np.asarray(target.scales)


def scores_of(
    features: Features, coefficients: NDArray[np.float64] | CentroidCoefficients,
    intercepts: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    """Return the scores ``(N, W)`` of a linear model."""
    if isinstance(coefficients, CentroidCoefficients):
        return coefficients.products(features) + intercepts
    return np.asarray(features @ coefficients.T) + intercepts


def solver(
    target: Column, features: Features, values: NDArray[Any],
    weights: NDArray[np.float64] | None = None, *, by_squares: bool = False,
) -> Callable[[float], Solution]:  # fmt: skip
    """Return the function from C to the coefficients and intercepts of the smallest penalized loss.

    Its calls start from the solution of the call before, so that ascending C take less time. The
    losses of the values may have weights ``(N, 1)``. Classes are fitted by softmax regression, or
    by least squares.
    """
    if isinstance(target, Classes):
        if by_squares:
            of_squares = left_out_solver(target, np.asarray(features), values, weights)
            return lambda penalty: of_squares(penalty).solution
        seen, labels = np.unique(values, return_inverse=True)
        fit = _softmax(features, labels, len(seen), weights)
        return lambda penalty: _one_per_class(target.width, seen, *fit(penalty))
    if isinstance(target, LabelSets):
        return _one_by_one(features, values, weights)
    standardized = as_columns(target, values)
    shape: Any = features.shape
    if not shape[1]:  # which Ridge refuses
        mean = np.average(standardized, axis=0, weights=weights)
        return lambda penalty: (np.zeros((len(mean), 0)), mean)

    exact: Any = features.astype(np.float64, copy=False)

    def ridge(penalty: float) -> Solution:
        of_rows = None if weights is None else weights[:, 0]
        from sklearn.linear_model import Ridge  # whose import takes a tenth of a second

        model = Ridge(alpha=1 / (2 * penalty), tol=1e-6).fit(exact, standardized, of_rows)
        coefficients = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
        return coefficients, np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))

    return ridge


def _one_by_one(
    features: Features, values: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> Callable[[float], Solution]:
    """Return the function from C to a logistic regression of each of several labels."""
    features = SharedRows.of(features)
    fits = [_label(features, column, weights) for column in values.astype(np.int64).T]

    def fit(penalty: float) -> Solution:
        solved = [fit(penalty) for fit in fits]
        return np.stack([rows for rows, _ in solved]), np.array([bias for _, bias in solved])

    return fit


def _label(
    features: Features, column: NDArray[np.int64], weights: NDArray[np.float64] | None
) -> Callable[[float], tuple[NDArray[np.float64], float]]:
    """Return the function from C to the logit of a label: the difference of two classes."""
    seen, numbers = np.unique(column, return_inverse=True)
    if len(seen) == 1:  # in one part of a cross-validation
        shape: Any = features.shape
        return lambda penalty: (np.zeros(shape[1]), UNSEEN * (2.0 * seen[0] - 1))
    solve = _softmax(features, numbers, 2, weights)

    def fit(penalty: float) -> tuple[NDArray[np.float64], float]:
        rows, intercepts = solve(penalty)
        return rows[1] - rows[0], float(intercepts[1] - intercepts[0])

    return fit


def _softmax(
    features: Features, labels: NDArray[np.int64], count: int, weights: NDArray[np.float64] | None,
) -> Callable[[float], Solution]:  # fmt: skip
    """Return the function from C to a row per class, which sum to 0 for two classes."""
    if count == 1:
        shape: Any = features.shape
        return lambda penalty: (np.zeros((1, shape[1])), np.zeros(1))
    model = SoftmaxRegression(features, labels, weights)
    # C is that of logistic regression, which penalizes the difference of two classes
    return lambda penalty: model.fit(penalty / 2 if count == 2 else penalty)


LeftOut = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def ridge_path(
    features: Features, targets: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> Callable[[float], LeftOut]:
    """Return the function from C to coefficients ``(K, F)``, intercepts, and left-out scores.

    The scores ``(N, K)`` are those that each object has by the regression without it, which are
    exact. Of features that are sparse, or more than N, all inner products are computed.
    """
    weights = np.ones((len(targets), 1)) if weights is None else weights
    roots, shares = np.sqrt(weights), weights / weights.sum()
    base = np.average(targets, axis=0, weights=weights[:, 0])
    residuals = roots * (targets - base)
    shape: Any = features.shape
    if isinstance(features, np.ndarray) and shape[1] <= shape[0]:
        mean = np.average(features, axis=0, weights=weights[:, 0])
        x = (features - mean) * roots
        values, vectors = np.linalg.eigh(x.T @ x)
        rows = x @ vectors
        projected, squares = rows.T @ residuals, rows**2

        def solve(shrunk: NDArray[np.float64]) -> LeftOut:
            coefficients = vectors @ (projected / shrunk)
            intercepts = base - mean @ coefficients
            fit = features @ coefficients + intercepts
            return coefficients.T, intercepts, fit

    else:
        gram = inner_products(features)
        means = gram @ shares  # of the inner products with each object
        centered = (gram - means - means.T + means.T @ shares) * roots * roots.T
        values, vectors = np.linalg.eigh(centered)
        values = np.maximum(values, 0)
        projected, squares = vectors.T @ residuals, vectors**2 * values

        def solve(shrunk: NDArray[np.float64]) -> LeftOut:
            of_objects = roots * (vectors @ (projected / shrunk))  # which sum to 0
            intercepts = base - means[:, 0] @ of_objects
            return (features.T @ of_objects).T, intercepts, gram @ of_objects + intercepts

    def fit(penalty: float) -> LeftOut:
        shrunk = np.maximum(values, 0)[:, None] + 1 / (2 * penalty)
        coefficients, intercepts, fit = solve(shrunk)
        leverages = shares + squares @ (1 / shrunk)
        without = targets - (targets - fit) / np.maximum(1 - leverages, 1e-9)
        return coefficients, intercepts, without

    return fit


class LeftOutFit(NamedTuple):
    """A ridge regression of classes or numbers, and how it predicts each object without it."""

    solution: Solution
    scores: NDArray[np.float64]  # left-out scores ``(N, W)``
    error: float  # the mean square of the errors of left-out scores, before they are logits


def left_out_solver(
    target: Column, features: Features, values: NDArray[Any],
    weights: NDArray[np.float64] | None = None,
) -> Callable[[float], LeftOutFit]:  # fmt: skip
    """Return the function from C to a ridge regression and left-out scores, see `ridge_path`.

    The scores of classes, of which the targets are 1 and -1, are logits: their factor has the
    smallest loss of the left-out scores; smoothed labels keep it finite if all of these are right.
    """
    of_rows = np.ones(len(values)) if weights is None else weights[:, 0]

    def error_of(without: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
        return float(np.average(((without - truth) ** 2).mean(1), weights=of_rows))

    if not isinstance(target, Classes):
        columns = as_columns(target, values)
        of_numbers = ridge_path(features, columns, weights)

        def fit_numbers(penalty: float) -> LeftOutFit:
            coefficients, intercepts, without = of_numbers(penalty)
            return LeftOutFit((coefficients, intercepts), without, error_of(without, columns))

        return fit_numbers
    seen, labels = np.unique(values, return_inverse=True)
    signs = 2 * np.eye(len(seen))[labels] - 1
    path = ridge_path(features, signs, weights)
    truth, smoothing = torch.from_numpy(labels), len(seen) / (len(labels) + len(seen))

    def fit(penalty: float) -> LeftOutFit:
        coefficients, intercepts, without = path(penalty)
        left_out = torch.from_numpy(without)

        def loss(scale: float) -> float:
            losses = cross_entropy(
                scale * left_out, truth, reduction="none", label_smoothing=smoothing
            )
            return float(losses.numpy() @ of_rows)

        scale = min(LOGITS, key=loss)
        scores = np.full((len(labels), target.width), scale * without.min() - UNSEEN)
        scores[:, seen] = scale * without
        solution = scale * coefficients, scale * intercepts
        error = error_of(without, signs)
        return LeftOutFit(_one_per_class(target.width, seen, *solution), scores, error)

    return fit


def _one_per_class(
    count: int, seen: NDArray[np.int64], rows: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> Solution:
    """Return a row per class from those of the classes in the training data."""
    coefficients = np.zeros((count, rows.shape[1]))
    offsets = np.full(count, intercepts.min() - UNSEEN)
    coefficients[seen], offsets[seen] = rows, intercepts
    return coefficients, offsets


# Features of training objects, kept beside a machine for the posterior of a Gaussian process.

MEASURED, MOST_NUMBERS = 2000, 4_000_000  # objects, and the numbers that are not 0 in all of them
_PARTS = tuple(f"measured.{name}" for name in ("data", "indices", "indptr"))


def kept_rows(rows: Any, basis: Any = None) -> Any:
    """Return the features of some objects, drawn at random, in float32 ``(M, F)``."""
    every = getattr(basis, "features", rows)
    count = every.shape[0]
    size = every.nnz / max(count, 1) if sparse.issparse(every) else every.shape[1]
    most = int(min(MEASURED, MOST_NUMBERS / max(size, 1)))
    some = every[np.sort(np.random.default_rng(0).permutation(count)[:most])]
    return (some @ basis if isinstance(basis, np.ndarray) else some).astype(np.float32)


def dense_of(matrix: Any) -> NDArray[np.float64]:
    """Return a matrix, perhaps a sparse one, as an array."""
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, np.float64)


def packed_rows(features: Any) -> dict[str, NDArray[Any]]:
    """Return features, or None, as arrays, see `unpacked_rows`."""
    if not sparse.issparse(features):
        return {} if features is None else {"measured": features}
    rows = sparse.csr_array(features)
    parts = rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return dict(zip(_PARTS, parts, strict=True))


def unpacked_rows(arrays: dict[str, NDArray[Any]], width: int) -> Any:
    """Return what `packed_rows` packed."""
    if _PARTS[0] not in arrays:
        features = arrays.get("measured")
        if features is not None and (features.ndim != 2 or features.shape[1] != width):
            raise ValueError(f"objects of {features.shape} for {width} features")
        return features
    data, indices, ends = (arrays[name] for name in _PARTS)
    rows = sparse.csr_array((data, indices, ends), shape=(len(ends) - 1, width))
    rows.check_format()
    return rows


# A linear model of very many classes, in memory that grows with the classes, not with features.
#
# A class of two or three objects has no use for a coefficient of every feature. Its scores lie in
# the span of the classes' centroids, whose combinations are learned by ridge regression:
#
# .. math:: s(x) = W\, C\, x + b
#
# with C the centroids ``(M, F)``, sparse, and W their combinations ``(K, M)``. Each score is still
# a sum over the features, so that explanations are exact.

MANY = 256  # classes from which a model of each feature and class takes too long
# fewer classes whose centroids are tried beside a model of each feature and class: at least so
# many, of no more objects each in the mean; with more objects, the centroids are never ahead
TRIED, OBJECTS = 10, 50
# the difference that selects centroids: the machines of the folds have fewer objects than the last
# one, by which centroids win
CLEARLY = 2.5
MOST_CENTROIDS = 4096  # of larger numbers of classes, those with the most objects
SHRINKAGE = 0.5  # the ridge; from 0.1 to 2 the accuracy hardly changes
CENTROID_LOGITS = tuple(
    2.0 ** (k / 2) for k in range(-2, 17)
)  # factors of the scores of least squares
RANKS = "", "_2", "_3", "_4", "_5"  # of the classes that are answered
ROWS = 1024  # objects whose products with the centroids are computed together
_CENTROIDS = tuple(f"centroids.{name}" for name in ("data", "indices", "indptr"))


def has_many(target: Column) -> bool:
    """Return True for so many classes that their model is one of centroids."""
    return isinstance(target, Classes) and target.width >= MANY


def few_objects(target: Column, count: int) -> bool:
    """Return True for so few objects of each of several classes that centroids are tried."""
    return isinstance(target, Classes) and TRIED <= target.width >= count / OBJECTS


@dataclass(frozen=True)
class CentroidCoefficients:
    """Coefficients ``(K, F)`` as a product, which is read row by row."""

    combinations: NDArray[np.float32]  # of centroids ``(K, M)``
    centroids: Any  # ``(M, F)``, sparse

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of classes and of features."""
        return len(self.combinations), self.centroids.shape[1]

    @property
    def size(self) -> int:
        """Numbers that are kept."""
        return self.combinations.size + self.centroids.nnz

    def scaled(self, factor: float) -> CentroidCoefficients:
        """Return the coefficients times a factor."""
        return CentroidCoefficients(np.float32(factor) * self.combinations, self.centroids)

    def __getitem__(self, index: int | slice) -> Any:
        """Return the coefficients of a class ``(F,)``, or of several classes."""
        chosen = self.combinations[index]
        if chosen.ndim == 2:
            return CentroidCoefficients(chosen, self.centroids)
        return chosen.astype(np.float64) @ self.centroids

    def mean(self, axis: int) -> NDArray[np.float64]:
        """Return the mean of the classes ``(F,)``."""
        return self.combinations.mean(axis, dtype=np.float64) @ self.centroids

    def products(self, features: Any) -> NDArray[np.float64]:
        """Return the products with features ``(N, K)``."""
        scores = np.empty((features.shape[0], len(self.combinations)))
        for start in range(0, len(scores), ROWS):
            near = features[start : start + ROWS] @ self.centroids.T
            near = near.toarray() if sparse.issparse(near) else near
            scores[start : start + ROWS] = near @ self.combinations.T
        return scores

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `read_coefficients` takes."""
        rows = self.centroids
        parts = rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
        return {"combinations": self.combinations} | dict(zip(_CENTROIDS, parts, strict=True))


def read_coefficients(arrays: dict[str, NDArray[Any]], width: int) -> CentroidCoefficients | None:
    """Return what was saved, None if other coefficients were."""
    if "combinations" not in arrays:
        return None
    data, indices, ends = (arrays[name] for name in _CENTROIDS)
    centroids = sparse.csr_array((data, indices, ends), shape=(len(ends) - 1, width))
    centroids.check_format()
    combinations = arrays["combinations"]
    if combinations.ndim != 2 or combinations.shape[1] != len(ends) - 1:
        raise ValueError(f"{combinations.shape} combinations of {len(ends) - 1} centroids")
    return CentroidCoefficients(combinations, centroids)


def solved(
    features: Any, values: NDArray[np.int64], width: int, weights: NDArray[np.float64] | None = None
) -> tuple[CentroidCoefficients, NDArray[np.float64]]:
    """Return the coefficients of classes and their intercepts ``(K,)``, by least squares.

    The targets are 1 and -1; no matrix of objects and classes is made.

    Args:
        features: ``(N, F)``, sparse.
        values: The class of each object ``(N,)``.
        width: K.
        weights: Of the objects ``(N, 1)``.
    """
    weights = np.ones((len(values), 1)) if weights is None else weights
    entries = weights[:, 0], (values, np.arange(len(values)))
    sums = sparse.csr_array(entries, shape=(width, len(values)))
    totals = np.asarray(sums.sum(axis=1)).ravel()
    landmarks = np.sort(np.argsort(-totals, kind="stable")[: min(MOST_CENTROIDS, width)])
    centroids = unit_rows(sparse.csr_array(sums[landmarks] @ features))
    # coordinates in the span of the centroids, whose inner products are those of the features
    lengths, vectors = np.linalg.eigh((centroids @ centroids.T).toarray())
    is_kept = lengths > lengths[-1] * 1e-9
    basis = vectors[:, is_kept] / np.sqrt(lengths[is_kept])
    gram = np.zeros((basis.shape[1], basis.shape[1]))
    total, of_classes = np.zeros(len(gram)), np.zeros((width, len(gram)))
    for start in range(0, len(values), ROWS):
        rows = slice(start, start + ROWS)
        coordinates = (features[rows] @ centroids.T).toarray() @ basis
        weighed = coordinates * weights[rows]
        gram += coordinates.T @ weighed
        total += weighed.sum(0)
        np.add.at(of_classes, values[rows], weighed)
    mass = totals.sum()
    mean, base = total / mass, 2 * totals / mass - 1
    gram -= mass * np.outer(mean, mean)
    # sums of coordinates times targets, both centered
    pulls = 2 * of_classes - total - np.outer(base, total)
    inner, directions = eigh(gram, overwrite_a=True, check_finite=False)
    shrunk = (pulls @ directions) / (np.maximum(inner, 0) + SHRINKAGE)
    of_rows = shrunk @ directions.T
    intercepts = base - of_rows @ mean
    combinations = (of_rows @ basis.T).astype(np.float32)
    return CentroidCoefficients(combinations, centroids.astype(np.float32)), intercepts


def centroid_machine(
    kernel: Any, target: Column, objects: Any, values: NDArray[np.int64], rows: NDArray[np.intp],
    weights: NDArray[np.float64] | None,
) -> tuple[Any, CentroidCoefficients, NDArray[np.float64]]:  # fmt: skip
    """Return a kernel that is fitted to some objects, coefficients and intercepts."""
    unfitted: Any = clone(kernel)
    features = sparse.csr_array(unfitted.fit_transform([objects[row] for row in rows]))
    of_rows = None if weights is None else weights[rows]
    return unfitted, *solved(features, values[rows], target.width, of_rows)


def scores_without(
    kernel: Any, target: Column, objects: Any, values: NDArray[np.int64],
    folds: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]],
    weights: NDArray[np.float64] | None,
) -> NDArray[np.float64]:  # fmt: skip
    """Return scores ``(N, W)`` of the tested objects of some folds by centroids of the others."""
    scores = np.zeros((len(values), target.width))
    for some, tested in folds:
        parts = kernel, target, objects, values, some, weights
        learned, coefficients, intercepts = centroid_machine(*parts)
        features = learned.transform([objects[row] for row in tested])
        scores[tested] = coefficients.products(features) + intercepts
    return scores


def logit_scale(scores: NDArray[np.float64], values: NDArray[np.int64]) -> float:
    """Return the factor of scores with the smallest loss on objects that were held out.

    Smoothed labels keep it finite if all of them are right.
    """
    logits, truth = torch.from_numpy(scores.astype(np.float32)), torch.from_numpy(values)
    smoothing = 1 / (len(values) + 1)

    def loss(scale: float) -> float:
        return cross_entropy(scale * logits, truth, label_smoothing=smoothing).item()

    best, least = CENTROID_LOGITS[0], loss(CENTROID_LOGITS[0])
    for scale in CENTROID_LOGITS[1:]:  # the loss is convex
        if (now := loss(scale)) > least:
            break
        best, least = scale, now
    return best


def is_ahead(
    scores: NDArray[np.float64], other: NDArray[np.float64], truth: NDArray[np.int64],
    weights: NDArray[np.float64] | float = 1.0,
) -> bool:  # fmt: skip
    """Return True if scores are right of more objects than others, by `CLEARLY` standard errors."""
    right, beside = (table.argmax(1) == truth for table in (scores, other))
    gains = weights * (right.astype(float) - beside)
    return float(gains.sum()) > CLEARLY * float((gains**2).sum()) ** 0.5


def best_classes(probabilities: NDArray[Any], names: Sequence[str]) -> list[list[str]]:
    """Return the most probable classes of each row, each with its probability, as cells."""
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, : len(RANKS)]
    chances = np.take_along_axis(probabilities, order, 1)
    rows = []
    for classes, values in zip(order.tolist(), chances.tolist(), strict=True):
        pairs = zip(classes, values, strict=True)
        rows.append([cell for c, chance in pairs for cell in (names[c], f"{chance:.6f}")])
    return rows
