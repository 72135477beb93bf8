"""The comparison of signals: groups of subjects are left out in turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from representer.errors import ArgumentError
from representer.estimators.explanation import BOTH, NETWORK
from representer.report.page import area_under_curve
from representer.storage.run import UnsavedRun
from representer.tasks.comparison import BASELINES, MODEL_UNIT, Comparison, Result, parts_of
from representer.tasks.signal.data import SignalData, plan, prepare, standardized, subjects_of
from representer.tasks.signal.fold import FoldJob, new_estimator, train_fold
from representer.tasks.signal.folds import spectral_baselines

_SET_HERE = ("jobs", "folds", "test_subjects")  # by the comparison itself


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
    def read(
        cls, config: Any, *, splits: Sequence[int] | None = None, **options: Any
    ) -> SignalComparison:
        """Read the recordings; there are as many folds as splits, by default 5 or the subjects."""
        data = prepare(config)
        if splits is None:
            splits = range(min(len(cls.splits), len(subjects_of(data.recordings))))
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
        options = {name: own for name, own in self.options().items() if name not in _SET_HERE}
        return {"task": "signal", **options, "data": self.data.digest, "folds": self.folds}

    def run(self, split: int, unit: str) -> list[Result]:
        """Train and test some rows on one fold, see `Comparison`."""
        recordings, started = self.data.recordings, time.perf_counter()
        fold = plan(recordings, replace(self.config, folds=self.folds))[split]
        rows = fold.parts(recordings)
        if unit == BASELINES:
            every = spectral_baselines(recordings, [fold], self.config)
            tested = [(one.name, one.seconds, one.probabilities) for one in every]
        else:
            options = {"answer": NETWORK, **self.variants.get(unit, {})}
            options = {"answer": BOTH} if unit == MODEL_UNIT else options
            config = replace(self.config, resume=False, **options)
            data = replace(self.data, recordings=standardized(recordings, config))
            estimator = train_fold(UnsavedRun(), FoldJob(config, fold, Path()), data).estimator
            signals = data.recordings.signals[rows["test"]]
            parts = parts_of(estimator, time.perf_counter() - started)
            tested = [(name, own, part.predict_proba(signals)) for name, own, part in parts]
        labels, train = recordings.labels[rows["test"]], len(rows["train"]) + len(rows["valid"])
        results = []
        for name, seconds, chances in tested:
            wrong = (chances.argmax(axis=1) != labels).astype(float).tolist()
            auc = area_under_curve(labels, chances)
            is_baseline = unit == BASELINES
            results.append(Result(name, wrong, seconds, train, is_baseline, auc=auc))
        return [replace(results[0], name=unit)] if unit in self.variants else results


comparison = SignalComparison.read
