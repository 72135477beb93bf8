"""The kernel half of an estimator: a linear model on the explicit features of an exact kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

from representer.estimators.classes import Classes
from representer.estimators.softmax_regression import SoftmaxRegression
from representer.estimators.targets import Numbers
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder

DESCRIPTION, ARRAYS = "kernel.json", "kernel.safetensors"

Features = sparse.csr_array | NDArray[np.float64]
Solution = tuple[NDArray[np.float64], NDArray[np.float64]]  # coefficients (W, F), intercepts (W,)


class ExplicitKernel(Protocol):
    """A kernel that has explicit features, learned from training objects."""

    def fit_transform(
        self, X: Sequence[Any], labels: NDArray[np.int64] | None = None, classes: int = 0
    ) -> Features:
        """Learn the features, which the classes may weight, and return them ``(N, F)``."""
        ...

    def transform(self, X: Sequence[Any]) -> Features:
        """Return the features ``(N, F)``."""
        ...


@dataclass(frozen=True)
class _Saved:
    """kernel.json."""

    penalty: float
    seconds: float
    tokens: dict[str, tuple[str, ...]]


@dataclass
class KernelMachine:
    """A linear model on the features of a kernel.

    Attributes:
        kernel: The fitted kernel.
        coefficients: ``(W, F)``, one row per class or number.
        intercepts: ``(W,)``.
        penalty: C, the inverse of the L2 penalty.
        seconds: Time of fitting.
    """

    kernel: Any
    coefficients: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    penalty: float
    seconds: float = 0.0

    @classmethod
    def fit(
        cls,
        kernel: ExplicitKernel,
        target: Classes | Numbers,
        objects: Sequence[Any],
        values: NDArray[Any],
        penalty: float,
    ) -> Self:
        """Return the machine of some objects.

        Args:
            kernel: The kernel, which is fitted.
            target: What is predicted.
            objects: The objects, as the kernel takes them.
            values: Their encoded targets.
            penalty: C.
        """
        features, basis = compressed(fit_kernel(kernel, target, objects, values))
        coefficients, intercepts = solver(target, features, values)(penalty)
        if basis is not None:
            coefficients = coefficients @ basis
        return cls(kernel, coefficients, intercepts, penalty)

    def scores(self, objects: Sequence[Any]) -> NDArray[np.float64]:
        """Return the score of each class, or standardized number, before the link ``(N, W)``."""
        return scores_of(self.kernel.transform(objects), self.coefficients, self.intercepts)

    @property
    def size(self) -> int:
        """Number of coefficients and intercepts."""
        return self.coefficients.size + self.intercepts.size

    @property
    def description(self) -> str:
        """The kernel, the number of its features, and the penalty."""
        name, width = type(self.kernel).__name__, self.coefficients.shape[1]
        return f"{name}, a linear model on {width:,} features with C = {self.penalty:g}"

    def write(self, run: RunFolder) -> None:
        """Write what `read` reads into a run folder."""
        tokens, arrays = self.kernel.fitted()
        arrays |= {"coefficients": self.coefficients, "intercepts": self.intercepts}
        saved = {"penalty": self.penalty, "seconds": self.seconds, "tokens": tokens}
        run.write_json(DESCRIPTION, saved)
        contiguous = {name: np.ascontiguousarray(own) for name, own in arrays.items()}
        run.write_tensors(ARRAYS, {n: torch.from_numpy(own) for n, own in contiguous.items()})

    @classmethod
    def read(cls, files: RunFiles, kernel: Any, outputs: int) -> Self:
        """Return what `write` wrote.

        Args:
            files: The run.
            kernel: The kernel with the parameters of the run.
            outputs: W.

        Raises:
            DataError: A file is missing, or they do not fit together.
            CheckpointError: The arrays are damaged.
        """
        saved = files.read(DESCRIPTION, _Saved)
        tensors, _ = files.tensors(ARRAYS, lambda forms: None)
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}

        def restored() -> Self:
            own = kernel.restore(saved.tokens, arrays)
            coefficients, intercepts = arrays["coefficients"], arrays["intercepts"]
            if coefficients.shape != (outputs, own.width) or intercepts.shape != (outputs,):
                raise ValueError(f"{coefficients.shape} coefficients for {own.width} features")
            return cls(own, coefficients, intercepts, saved.penalty, saved.seconds)

        return files.parsed(ARRAYS, restored)

    def centered_score(self, objects: Any, output: int) -> float:
        """Return the score of the only object minus the mean of its scores, or a single score."""
        scores = self.scores(objects)[0]
        return float(scores[output] - scores.mean()) if len(scores) > 1 else float(scores[0])

    def centered(self, output: int) -> tuple[NDArray[np.float64], float]:
        """Return coefficients ``(F,)`` and intercept of an output minus the mean of all."""
        if len(self.intercepts) == 1:
            return self.coefficients[0], float(self.intercepts[0])
        own = self.coefficients[output] - self.coefficients.mean(0)
        return own, float(self.intercepts[output] - self.intercepts.mean())


def fit_kernel(
    kernel: ExplicitKernel, target: Classes | Numbers, objects: Sequence[Any], values: Any
) -> Features:
    """Fit a kernel to objects, and to their classes if they have any; return their features."""
    if isinstance(target, Classes):
        return kernel.fit_transform(objects, values, target.width)
    return kernel.fit_transform(objects)


def compressed(features: Features) -> tuple[Features, NDArray[np.float64] | None]:
    """Return rows of at most N features with the same inner products, and their basis.

    Args:
        features: ``(N, F)``.

    Returns:
        ``(N, R)`` and ``(R, F)``, whose product are the features; for sparse ones, or F up to N,
        the features themselves and None.
    """
    if not isinstance(features, np.ndarray) or features.shape[1] <= len(features):
        return features, None
    values, vectors = np.linalg.eigh(features @ features.T)
    is_kept = values > values[-1] * 1e-12  # the others are rounding errors
    lengths = np.sqrt(values[is_kept])
    return vectors[:, is_kept] * lengths, (vectors[:, is_kept] / lengths).T @ features


def scores_of(
    features: Features, coefficients: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the scores ``(N, W)`` of a linear model."""
    return np.asarray(features @ coefficients.T) + intercepts


def solver(
    target: Classes | Numbers, features: Features, values: NDArray[Any]
) -> Callable[[float], Solution]:
    """Return the function from C to the coefficients and intercepts of the smallest penalized loss.

    Its calls start from the solution of the call before, so that ascending C take less time.
    """
    if isinstance(target, Classes):
        seen, labels = np.unique(values, return_inverse=True)
        fit = _softmax(features, labels, len(seen))
        return lambda penalty: _one_per_class(target.width, seen, *fit(penalty))
    means, scales = np.asarray(target.means), np.asarray(target.scales)
    standardized = (values - means) / scales

    def ridge(penalty: float) -> Solution:
        model = Ridge(alpha=1 / (2 * penalty), tol=1e-6).fit(features, standardized)
        coefficients = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
        return coefficients, np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))

    return ridge


def _softmax(
    features: Features, labels: NDArray[np.int64], count: int
) -> Callable[[float], Solution]:
    """Return the function from C to a row per class, which sum to 0 for two classes."""
    if not isinstance(features, np.ndarray):
        sparse_model = SoftmaxRegression(features, labels)
        # C is that of logistic regression, which penalizes the difference of two classes
        return lambda penalty: sparse_model.fit(penalty / 2 if count == 2 else penalty)

    def logistic(penalty: float) -> Solution:
        model = LogisticRegression(C=penalty, max_iter=1000, tol=1e-5).fit(features, labels)
        rows, intercepts = np.asarray(model.coef_), np.asarray(model.intercept_)
        if count > 2:
            return rows, intercepts
        return np.concatenate([-rows, rows]) / 2, np.concatenate([-intercepts, intercepts]) / 2

    return logistic


def _one_per_class(
    count: int, seen: NDArray[np.int64], rows: NDArray[np.float64], intercepts: NDArray[np.float64]
) -> Solution:
    """Return a row per class from those of the classes in the training data."""
    coefficients = np.zeros((count, rows.shape[1]))
    offsets = np.full(count, intercepts.min() - 10.0)  # a class that was not seen
    coefficients[seen], offsets[seen] = rows, intercepts
    return coefficients, offsets
