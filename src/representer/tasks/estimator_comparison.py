"""The comparison of a task that trains an estimator on labeled objects."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from representer.errors import ArgumentError
from representer.estimators.explanation import BOTH, NETWORK
from representer.estimators.fitting import random_parts, validation_fraction
from representer.report.page import Predictions, area_under_curve
from representer.storage.run import UnsavedRun
from representer.tasks.baselines import Baseline
from representer.tasks.comparison import BASELINES, MODEL_UNIT, Comparison, Result, parts_of
from representer.tasks.flow import EstimatorTask
from representer.tasks.objects import Data, Objects, Split
from representer.tasks.options import parameters_of
from representer.tasks.results import predictions_of_baseline


@dataclass(frozen=True, kw_only=True)
class EstimatorComparison(Comparison):
    """Kernel, network, both, variants of the network and baselines on the splits of a task.

    Split k is that of ``fit`` with the k-th seed after that of the options.

    Args:
        flow: The task.
        sources: The objects, from `EstimatorTask.sources`.
        folds: The test fold of each main object, from 0, which is the number of its split; -1
            for none. Without folds, the splits are those of ``fit``.

    Raises:
        ArgumentError: There are several targets, or a variant has an invalid option.
    """

    flow: EstimatorTask
    sources: dict[str, Objects]
    folds: Sequence[int] = ()

    def __post_init__(self) -> None:
        if len(targets := self.sources["all"].columns) > 1:
            names = ",".join(str(name) for name, _ in targets)
            raise ArgumentError("target", names, "one target to compare models on")
        for options in self.variants.values():
            kind = self.flow.kind(self.config, self.sources)
            kind(**parameters_of(replace(self.config, **options), kind)).check()

    @classmethod
    def read(cls, flow: EstimatorTask, config: Any, **options: Any) -> EstimatorComparison:
        """Read the objects of a task; the other arguments are those of the class."""
        return cls(flow=flow, config=config, sources=flow.sources(config), **options)

    @property
    def title(self) -> str:
        """The file, the number of splits, and what they have in common."""
        main = self.sources["all"]
        name = Path(main.source).name if main.files else main.source
        if self.has_fixed_test:
            test = f"tested on the {len(self.sources['test'])} {self.flow.nouns} of the test file"
            return f"{name}: {len(self.splits)} seeds, {test}"
        kind = "folds" if self.folds else f"splits of {len(main)} {self.flow.nouns}"
        return f"{name}: {len(self.splits)} {kind}"

    @property
    def metric(self) -> str:
        """Accuracy, or RMSE for numbers."""
        is_regression = self.flow.kind(self.config, self.sources) is self.flow.regressor
        return "rmse" if is_regression else "accuracy"

    @property
    def has_fixed_test(self) -> bool:
        """True if the test objects come from a file of their own."""
        return "test" in self.sources

    @property
    def settings(self) -> dict[str, Any]:
        """The options, the data, and the folds."""
        digests = {name: one.digest for name, one in self.sources.items()}
        folds = {"sha256": digests, "folds": list(self.folds)}
        return {"task": self.flow.name, **self.options(), **folds}

    def run(self, split: int, unit: str) -> list[Result]:
        """Train and test some rows on one split, see `Comparison`."""
        config, data = self.divided(split)
        if unit == BASELINES:
            return self._baselines(config, data)
        if unit == MODEL_UNIT:
            return self._train(replace(config, answer=BOTH), data)
        (result,) = self._train(replace(config, answer=NETWORK, **self.variants[unit]), data)
        return [replace(result, name=unit)]

    def divided(self, number: int) -> tuple[Any, Data]:
        """Return the options and the data of a split."""
        config = replace(self.config, seed=self.config.seed + number, resume=False)
        split_by = self.split_by(number)
        return config, self.flow.divide(config, self.sources, split_by, is_silent=True)

    def split_by(self, number: int) -> Split | None:
        """Return how the objects of a split are divided; None if as in ``fit``."""
        return partial(self._positions, number) if self.folds else None

    def _positions(
        self, number: int, objects: Objects, fractions: Sequence[float]
    ) -> Sequence[Sequence[int]]:
        """Return the positions in each part; those of the fold are the test part."""
        folds = np.asarray(self.folds)
        test, rest = (
            np.flatnonzero(where).tolist() for where in (folds == number, folds != number)
        )
        share = validation_fraction(self.config.valid_fraction, len(rest))
        labels = [str(objects.labels[i]) if self.metric == "accuracy" else "" for i in rest]
        digests = objects.subset(rest).digests
        seed = self.config.seed + number
        train, valid = random_parts(labels, len(rest), (1 - share, share), seed, digests)
        return [rest[i] for i in train], [rest[i] for i in valid], test

    def _train(self, config: Any, data: Data) -> list[Result]:
        """Train an estimator once, and return the results of each of its parts."""
        started = time.perf_counter()
        data = replace(data, resources=data.resources | {"verbose": 0})
        trained = self.flow.train(UnsavedRun(), config, data, is_silent=True)
        parts = parts_of(trained.estimator, time.perf_counter() - started)
        return [self.tested(data, name, seconds, part) for name, seconds, part in parts]

    def _baselines(self, config: Any, data: Data) -> list[Result]:
        """Train the baselines, on request also the networks among them."""
        if config.baselines == "none":
            return []
        results = [self.tested_baseline(data, row) for row in self.flow.baselines(config, data)]
        for name, own in [*self.flow.networks(config).items()][1:]:
            (result,) = self._train(own, data)
            results.append(replace(result, name=name, is_baseline=True))
        return results

    def tested(self, data: Data, name: str, seconds: float, part: Any) -> Result:
        """Return the losses of a part of a fitted estimator on the test objects."""
        return self._result(data, name, seconds, self.flow.predicted(part, data))

    def tested_baseline(self, data: Data, baseline: Baseline) -> Result:
        """Return the losses of a baseline on the test objects."""
        predictions = predictions_of_baseline(baseline, data.columns("test"))
        return self._result(data, baseline.name, baseline.seconds, predictions, is_baseline=True)

    def _result(
        self, data: Data, name: str, seconds: float, predictions: Sequence[Predictions],
        *, is_baseline: bool = False,
    ) -> Result:  # fmt: skip
        (column,), (own,) = data.columns("test"), predictions
        known = np.intersect1d(column.known(), data.distinct("test"))  # copies count once
        truth, predicted = column.truth[known], own.values[known]
        losses = predicted != truth if column.classes else (predicted - truth) ** 2
        train = sum(len(data.distinct(part)) for part in ("train", "valid"))
        rounded = np.asarray(losses, dtype=np.float64).tolist()
        chances = own.probabilities
        auc = None if chances is None else area_under_curve(truth, chances[known])
        return Result(name, rounded, seconds, train, is_baseline, auc=auc)
