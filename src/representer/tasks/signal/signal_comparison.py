"""The comparison of signals: groups of subjects are left out in turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from representer.errors import ArgumentError
from representer.estimators.explanation import BOTH, NETWORK
from representer.storage.run_folder import UnsavedRun
from representer.tasks.comparison import BASELINES, MODEL, Comparison, Result, parts_of
from representer.tasks.signal.signal_baseline import VIEWS, spectral_baseline
from representer.tasks.signal.signal_data import SignalData, prepare, standardized
from representer.tasks.signal.signal_fold import FoldJob, new_estimator, train_fold
from representer.tasks.signal.signal_folds import Fold, plan, subjects_of

# Options that do not change the results, or that a comparison sets itself.
_WITHOUT_EFFECT = (
    "data", "out", "resume", "demo", "answer", "jobs", "threads", "device", "folds",
    "test_subjects",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SignalComparison(Comparison):
    """Kernel, network, both, variants of the network and the baseline on folds of subjects.

    Split k is the k-th fold of ``fit signal --folds``.

    Args:
        data: The recordings.
        folds: Number of groups of subjects.

    Raises:
        ArgumentError: There are fewer subjects than groups, or a variant has an invalid option.
    """

    data: SignalData
    folds: int = 5

    def __post_init__(self) -> None:
        subjects = len(subjects_of(self.data.recordings))
        if self.folds > subjects:
            expected = f"2 to {subjects}, the number of subjects"
            raise ArgumentError("splits", self.folds, expected)
        for options in ({}, *self.variants.values()):  # raises now what would fail later
            config = replace(self.config, **options)
            new_estimator(config, self.data.recordings, 0).new_network(0)

    @classmethod
    def read(cls, config: Any, *, splits: Sequence[int], **options: Any) -> SignalComparison:
        """Read the recordings; there are as many folds as splits."""
        data = prepare(config)
        return cls(config=config, data=data, splits=splits, folds=len(splits), **options)

    @property
    def title(self) -> str:
        """The file and the folds."""
        data = self.data
        name = data.source if self.config.demo else Path(data.source).name
        subjects = len(subjects_of(data.recordings))
        windows = f"{len(data.recordings)} windows of {subjects} subjects"
        return f"{name}: {self.folds} groups of subjects left out in turn, {windows}"

    @property
    def metric(self) -> str:
        """Accuracy over windows."""
        return "accuracy"

    @property
    def has_fixed_test(self) -> bool:
        """False: every fold has other test subjects."""
        return False

    @property
    def settings(self) -> dict[str, Any]:
        """The options, the recordings and the number of folds."""
        chosen = self.config.to_dict()
        options = {name: value for name, value in chosen.items() if name not in _WITHOUT_EFFECT}
        return {"task": "signal", **options, "data": self.data.digest, "folds": self.folds}

    def run(self, split: int, unit: str) -> list[Result]:
        """Train and test some rows on one fold, see `Comparison`."""
        fold = plan(self.data.recordings, replace(self.config, folds=self.folds))[split]
        if unit == BASELINES:
            return self._baselines(fold)
        options = {"answer": BOTH} if unit == MODEL else {"answer": NETWORK, **self.variants[unit]}
        results = self._train(replace(self.config, **options), fold)
        return results if unit == MODEL else [replace(results[0], name=unit)]

    def _train(self, config: Any, fold: Fold) -> list[Result]:
        started = time.perf_counter()
        recordings = standardized(self.data.recordings, config)
        job = FoldJob(replace(config, resume=False), fold, Path())
        trained = train_fold(UnsavedRun(), job, SignalData(recordings, self.data.digest))
        seconds = time.perf_counter() - started
        signals = recordings.signals[trained.rows["test"]]
        return [
            self._result(trained.rows, name, own, part.predict_proba(signals))
            for name, own, part in parts_of(trained.estimator, seconds)
        ]

    def _baselines(self, fold: Fold) -> list[Result]:
        recordings = self.data.recordings
        rows = fold.parts(recordings)
        every = [
            spectral_baseline(recordings, [fold], self.config.standardize, view)
            for view in VIEWS[self.config.baselines]
        ]
        return [
            self._result(rows, one.name, one.seconds, one.probabilities, is_baseline=True)
            for one in every
        ]

    def _result(
        self, rows: dict[str, np.ndarray], name: str, seconds: float, probabilities: np.ndarray,
        *, is_baseline: bool = False,
    ) -> Result:  # fmt: skip
        wrong = probabilities.argmax(axis=1) != self.data.recordings.labels[rows["test"]]
        train = len(rows["train"]) + len(rows["valid"])
        return Result(name, wrong.astype(float).tolist(), seconds, train, is_baseline)


comparison = SignalComparison.read
