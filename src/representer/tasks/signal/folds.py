"""Read recordings as a run trains on them, or as a trained model takes them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from representer.data.signals import (
    Recordings,
    Standardization,
)
from representer.errors import ArgumentError, say
from representer.estimators import SignalClassifier
from representer.kernels.cross_spectral_kernel import MATRIX, POWER, CrossSpectralKernel
from representer.report.metrics import extended, t_quantile
from representer.tasks.signal.data import (
    Fold,
    SignalData,
    accuracy_by_subject,
    digest_of,
    joined,
    plan,
    standardized,
)
from representer.tasks.signal.fold import FoldJob, FoldResult, finished, run_fold
from representer.tasks.signal.processes import run_in_processes

# Compare two models over subjects with Wilcoxon's signed-rank test.

_DIGITS = 9  # differences by rounding errors are ties
_EXACT = 15  # up to so many subjects, all signs are enumerated, which is exact with ties


def paired_over_subjects(
    model: Mapping[str, float], baseline: Mapping[str, float]
) -> dict[str, Any]:
    """Compare the accuracies of two models subject by subject.

    The windows of a subject are dependent, so the test is over subjects. Subjects without a
    difference are left out of the test.

    Args:
        model: Accuracy of the model by subject.
        baseline: Accuracy of the baseline by subject, for the same subjects.

    Returns:
        ``mean`` difference, its 95 % ``interval`` by Student's t, extended to 0 unless the test
        rejects, numbers of subjects ``better``, ``worse`` and ``equal``, and ``p`` of the two-sided
        test; 1 if no subject differs. The interval of a single subject is all that accuracies
        allow.

    Raises:
        ArgumentError: If the subjects are not the same.
    """
    if model.keys() != baseline.keys() or not model:
        raise ArgumentError(
            "baseline", sorted(baseline), f"the subjects {', '.join(sorted(model))}"
        )
    d = np.asarray([round(model[subject] - baseline[subject], _DIGITS) for subject in model])
    p = _p_value(d[d != 0])
    return {
        "mean": float(d.mean()),
        "interval": list(extended(*_interval(d), p)),
        "better": int((d > 0).sum()),
        "worse": int((d < 0).sum()),
        "equal": int((d == 0).sum()),
        "p": p,
    }


def _interval(d: np.ndarray) -> tuple[float, float]:
    if len(d) < 2:
        return -1.0, 1.0
    half = t_quantile(len(d)) * float(d.std(ddof=1)) / len(d) ** 0.5
    return float(d.mean()) - half, float(d.mean()) + half


def _p_value(d: np.ndarray) -> float:
    from scipy.stats import rankdata, wilcoxon

    if len(d) > _EXACT:
        result: Any = wilcoxon(d, method="asymptotic")
        return float(result.pvalue)
    ranks = (2 * rankdata(np.abs(d))).astype(int)  # ties have half ranks
    ways = np.ones(1)  # to choose signs so that the positive ranks have a sum
    for rank in ranks:
        ways = np.convolve(ways, np.eye(rank + 1)[[0, -1]].sum(axis=0))
    positive = int(ranks[d > 0].sum())
    tail = min(float(ways[: positive + 1].sum()), float(ways[positive:].sum()))
    return min(1.0, 2 * tail / 2 ** len(d))


# Leave-one-subject-out cross-validation: the folds of a run, in one process or several.

FOLDS = "folds"
MOST_PROCESSES = 8  # by default; each needs about half a gigabyte


@dataclass(frozen=True)
class LosoResult:
    """Predictions of all folds.

    Attributes:
        folds: Results of the folds, in order.
        rows: Indices of the test windows, in ascending order.
        probabilities: Class probabilities ``(rows, classes)``.
    """

    folds: tuple[FoldResult, ...]
    rows: np.ndarray
    probabilities: np.ndarray

    @classmethod
    def of_folds(cls, folds: Sequence[FoldResult]) -> LosoResult:
        """Join the predictions of the folds."""
        return cls(tuple(folds), *joined([(fold.rows, fold.probabilities) for fold in folds]))

    @property
    def seconds(self) -> float:
        """Training time of all folds."""
        return sum(fold.seconds for fold in self.folds)

    def accuracy_by_subject(self, recordings: Recordings) -> dict[str, float]:
        """Return the accuracy on each test subject."""
        return accuracy_by_subject(recordings, self.rows, self.probabilities.argmax(axis=1))


def jobs_of(recordings: Recordings, config: Any, folder: str | Path) -> list[FoldJob]:
    """Return the jobs of a run, one folder per fold."""
    return [
        FoldJob(replace(config, resume=False), fold, Path(folder, FOLDS, fold.folder_name(number)))
        for number, fold in enumerate(plan(recordings, config))
    ]


def estimators_of(folder: Path, folds: Sequence[FoldResult]) -> list[SignalClassifier]:
    """Return the trained estimators of the folds of a run."""
    names = (one.fold.folder_name(number) for number, one in enumerate(folds))
    return [SignalClassifier.load(folder / FOLDS / name) for name in names]


def run_loso(
    recordings: Recordings,
    config: Any,
    folder: str | Path,
    *,
    processes: int | None = None,
    report: Callable[[str], None] = say,
) -> LosoResult:
    """Leave every subject, or group of subjects, out in turn.

    Each fold is trained from scratch in ``folder/folds/NAME``. Finished folds are not repeated, and
    interrupted folds continue.

    Args:
        recordings: Resampled and cut recordings, not standardized.
        config: A `SignalConfig`: options of model, training and folds.
        folder: Folder of the run.
        processes: Number of folds at a time; 0 for one per processor, at most 8; by default
            ``jobs`` of the configuration, or else 1.
        report: Called with a line for every finished fold.

    Raises:
        DataError: If the recordings have too few subjects for the folds.
        ArgumentError: If a fold in the folder has other settings.
        Interrupted: If a signal arrived; everything is saved.
        TrainingError: If a training diverged, or a process was killed.
    """
    data = SignalData(standardized(recordings, config), digest_of(recordings))
    chosen = config.jobs if processes is None else processes
    count = 1 if chosen is None else chosen or min(os.cpu_count() or 1, MOST_PROCESSES)
    results = run_folds(data, jobs_of(recordings, config, folder), processes=count, report=report)
    return LosoResult.of_folds(results)


def run_folds(
    data: SignalData,
    jobs: Sequence[FoldJob],
    *,
    processes: int,
    report: Callable[[str], None],
) -> list[FoldResult]:
    """Run folds, each once, and return their results in the order of the jobs.

    Args:
        data: Recordings as the estimators take them, with the digest of those as read.
        jobs: The folds.
        processes: Number of worker processes; 1 runs the folds in this process.
        report: Called with a line for every finished fold.

    Raises:
        RepresenterError: See `run_loso`.
    """
    results = {job.folder: result for job in jobs if (result := finished(job, data))}
    waiting = [job for job in jobs if job.folder not in results]
    if results:
        report(f"{len(results)} of {len(jobs)} folds are finished already")

    def take(job: FoldJob, result: FoldResult) -> None:
        results[job.folder] = result
        report(f"{len(results)}/{len(jobs)} {result.line(data.recordings)}")

    if min(processes, len(waiting)) > 1:
        run_in_processes(data, waiting, processes, take)
    else:
        for job in waiting:
            take(job, run_fold(job, data))
    return [results[job.folder] for job in jobs]


# Baselines for signals: logistic regression on the spectra of the windows.

_COST = 0.1  # C with one feature per channel and band, about as many as windows of a subject
_KINDS = {
    POWER: ("log band power", "Logarithms of each channel's power"),
    MATRIX: (
        "cross-spectral matrices",
        "Logarithms of the cross-spectral matrices of all channels",
    ),
}
VIEWS = {"none": (), "simple": (POWER,), "all": (POWER, MATRIX)}  # by --baselines


@dataclass(frozen=True)
class BaselinePredictions:
    """Predictions of a baseline in all folds.

    Attributes:
        name: Short name for tables.
        description: What it does, in one sentence.
        rows: Indices of the test windows, in ascending order.
        probabilities: Class probabilities ``(rows, classes)``.
        seconds: Time of training and prediction.
    """

    name: str
    description: str
    rows: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    seconds: float


def spectral_baselines(
    recordings: Recordings, folds: Sequence[Fold], config: Any
) -> list[BaselinePredictions]:
    """Train and test the baselines of a `SignalConfig`; see `spectral_baseline`."""
    views = VIEWS[config.baselines]
    return [spectral_baseline(recordings, folds, config.standardize, view) for view in views]


def spectral_baseline(
    recordings: Recordings, folds: Sequence[Fold], standardize: str, view: str = POWER
) -> BaselinePredictions:
    """Train and test a baseline on the folds of a model.

    The baseline needs no early stopping, so it is trained on the validation subjects, too.

    Args:
        recordings: Resampled and cut recordings, not standardized.
        folds: Folds of the model.
        standardize: Standardization of the windows, as for the model.
        view: Of `CrossSpectralKernel`: log band power, or logarithms of cross-spectral matrices.
    """
    started = time.perf_counter()
    if standardize in ("subject", "window"):  # the scaler undoes that by training
        recordings = Standardization(standardize).apply(recordings)
    kernel = CrossSpectralKernel(recordings.sampling_rate, views=(view,))
    spectra = kernel.read(recordings.signals)
    features = spectra.views[view].astype(np.float64)
    bands = list(dict.fromkeys(one.band for one in kernel.fit(spectra).features()))
    cost = _COST * len(bands) * spectra.shape[0] / features.shape[1]
    predicted = []
    for fold in folds:
        parts = fold.parts(recordings)
        train, test = np.concatenate([parts["train"], parts["valid"]]), parts["test"]
        # a rotation changes nothing, and leaves at most as many features as windows
        model = make_pipeline(StandardScaler(), PCA(), LogisticRegression(C=cost, max_iter=2000))
        model.fit(features[train], recordings.labels[train])
        predicted.append((test, model.predict_proba(features[test])))
    name, what = _KINDS[view]
    hertz = ", ".join(f"{low:.3g} to {high:.3g}" for low, high in bands)
    description = f"{what} in bands of {hertz} Hz, standardized on the training subjects; "
    return BaselinePredictions(
        f"{name} + logistic regression", description + "logistic regression.",
        *joined(predicted), time.perf_counter() - started,
    )  # fmt: skip
