"""Fitting and predicting, written once for every estimator of objects and their targets.

Such an estimator has parameters (`TargetParameters`), the inputs of its network (how objects become
batches), an exact kernel, and what it predicts (`Classes` or `Numbers`). A subclass gives the
inputs, the network and the kernel; the rest is here and in `base`.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import nn
from torch.optim import Optimizer

from representer.data.splits import digest_of
from representer.errors import ArgumentError, DataError, KindError, plural
from representer.estimators import fitting, kernel_machine, targets
from representer.estimators.base import Estimator
from representer.estimators.calibration import UNCALIBRATED
from representer.estimators.conformal import (
    CONFORMAL_FILE,
    Conformal,
    calibrated,
    class_scores,
    cross_scores,
    number_scores,
)
from representer.estimators.explanation import NETWORK, Explained, Explanation, scaled
from representer.estimators.halves import (
    CALIBRATION,
    LabeledObjects,
    fit_parts,
    network_moments,
)
from representer.estimators.improvement import suggestions
from representer.estimators.kernel_machine import CANDIDATES, FeatureKernel, KernelMachine
from representer.estimators.label_sets import LabelSets, f1_scores
from representer.estimators.results import results_of
from representer.kernels.sequences import as_sequence
from representer.report.page import Predictions, rates_by
from representer.storage.run import RunFiles, RunFolder, UnsavedRun
from representer.training import generators
from representer.training.config import TrainerConfig, TrainingTask

NOT_FINITE = "predictions are not finite"


class SupervisedEstimator(Estimator):
    """The base of all estimators of objects and their targets; see the module.

    Attributes:
        conformal_: The quantiles of the calibration scores; None without `conformal`.
    """

    noun: ClassVar[str]  # of one object, for messages
    _results_of = staticmethod(results_of)
    _digest: ClassVar[Callable[[Any], int]] = staticmethod(digest_of)
    few: ClassVar[int] = 0  # validation objects below which the kernel machine is trusted more
    is_kernel_unsupervised: ClassVar[bool] = False  # it learns nothing from classes
    penalties: ClassVar[Sequence[float]] = CANDIDATES
    conformal: float | None
    conformal_by: str | None
    calibration: str
    class_weight: Any
    conformal_: Conformal | None = None

    # ---- what a subclass defines; what tasks, reports and serving call, too, has a public name

    @abstractmethod
    def _check_objects(self, X: Any) -> Sequence[Any]:
        """Return the objects as a sequence, or raise a `DataError` that names a row."""

    @classmethod
    def digests(cls, objects: Sequence[Any]) -> NDArray[np.int64]:
        """Return numbers by which objects are equal ``(N,)``."""
        return np.fromiter(map(cls._digest, objects), np.int64, len(objects))

    @abstractmethod
    def learn_inputs(self, objects: Sequence[Any], seed: int) -> fitting.Inputs:
        """Return the inputs, learned from the training objects."""

    @abstractmethod
    def _configure(self, inputs: Any, width: int) -> Any:
        """Return the configuration of the network, a dataclass of plain values."""

    def _initialize(self, network: Any, inputs: Any, seed: int) -> None:
        """Change the initial weights, for example to pretrained ones."""

    def _augmentation(self) -> Callable[..., tuple[Any, ...]] | None:
        """Return a function that changes the network's arguments at random in training."""
        return None

    def _new_kernel(self) -> FeatureKernel:
        """Return the exact kernel, before it is fitted; only ``answer="network"`` needs none."""
        raise KindError("answer", self.answer, f"{NETWORK!r}, since there is no exact kernel")

    def kernel_candidates(self, objects: Any) -> Sequence[FeatureKernel]:
        """Return the kernels to choose from for some objects, as `kernel_objects` returned them."""
        return [self._new_kernel()]

    def kernel_objects(self, objects: Any) -> Any:
        """Return objects as the kernel takes them: a sequence that can be sliced."""
        return objects

    def leaves_one_out(self, count: int) -> bool:
        """Return True if the kernel machine predicts each of its rows by a machine without it."""
        return False

    @abstractmethod
    def _explain_network(self, one: Any, output: int) -> Explained:
        """Return an output of the network, its constant part and its contributions."""

    def explain_kernel(self, one: Any, output: int) -> Explained:
        """Return an output of the kernel machine, its constant part and its contributions."""
        raise KindError("answer", self.answer, f"{NETWORK!r}: the kernel has no contributions")

    def without_content(self, objects: Sequence[Any]) -> list[int]:
        """Return the rows of checked objects that have nothing which training had."""
        return [row for row, item in enumerate(objects) if not self._has_content(item)]

    def _warn(self, objects: Any) -> None:
        """Warn of objects that differ from those of the training."""
        if empty := self.without_content(objects):
            shown = ", ".join(f"X[{row}]" for row in empty[:5]) + ", ..." * (len(empty) > 5)
            warnings.warn(
                f"{len(empty):,} of {len(objects):,} {plural(self.noun)} have nothing that "
                f"training had: {shown}. Their predictions say nothing about them.",
                stacklevel=2,
            )

    def _has_content(self, one: Any) -> bool:
        """Return False if an object has nothing from which a prediction could follow."""
        return True

    @abstractmethod
    def find_target(self, y: Any) -> targets.Target:
        """Return what is predicted."""

    @abstractmethod
    def conformal_scores(
        self, objects: Sequence[Any], values: NDArray[Any], target: Any = None
    ) -> list[NDArray[np.float64]]:
        """Return how badly the targets of some objects fit the predictions.

        Args:
            objects: Checked objects.
            values: Their targets, encoded by `target`.
            target: What encoded them; by default what the estimator predicts.
        """

    @abstractmethod
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the prediction for each object."""

    @abstractmethod
    def predictions(self, objects: Sequence[Any]) -> list[Predictions]:
        """Return the predictions of each target, with what the metrics of a report need."""

    # ---- what a user calls

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        validation: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Train on objects and targets.

        Args:
            X: The objects ``(N,)``.
            y: The targets ``(N,)`` or, for numbers, ``(N, K)``.
            groups: The group of each object ``(N,)``; validation holds out whole groups.
            validation: A pair ``(X, y)`` that selects the best epoch; by default a part of the
                training data, `valid_fraction`, is held out for this.
            sample_weight: Non-negative weight of the loss of each object ``(N,)``, relative to
                the others.

        Returns:
            The fitted estimator.

        Raises:
            DataError: An object or a target cannot be used; the message names its row.
            ArgumentError: A parameter is out of its range.
        """
        self._check_parameters()
        objects = self.checked_objects(X)
        if y is None:
            problem = f"{type(self).__name__} requires y to be passed, but the target y is None"
            raise DataError(problem)
        if len(objects) == 1:
            raise DataError("X has 1 sample; at least 2 are needed to fit", fix="Add examples.")
        y = as_sequence(y)
        targets.require_same_length(objects, y)
        groups = None if groups is None else targets.groups_of(groups, objects)
        seed, digests = fitting.seed_of(self.random_state), self.digests(objects)
        weights = None if sample_weight is None else targets.checked_weights(sample_weight, objects)
        start = type(self).load(str(self.warm_start)) if self.warm_start else None
        self.target_ = start.target_ if start else self.find_target(y)
        values = self.target_.encode(y)

        def divided(rows: Sequence[int], others: Sequence[int]) -> list[LabeledObjects]:
            return [([objects[i] for i in numbers], values[numbers]) for numbers in (rows, others)]

        parts: dict[str, LabeledObjects] = {}
        of_part: dict[str, NDArray[Any]] = {}
        crossed = None
        if self.conformal is not None and self.calibration == "cross":
            crossed = cross_scores(self, objects, y, values, groups, weights, digests)
        elif self.conformal is not None:
            is_whole = groups is not None and self.conformal_by != "group"
            splits = targets.splits_of(self.target_, values, groups if is_whole else None, digests)
            rows, held_out = splits.calibration(seed, self.conformal)
            (objects, values), parts[CALIBRATION] = divided(rows, held_out)
            if groups is not None:
                of_part[CALIBRATION] = groups[held_out]
            digests = digests[rows]
            groups = None if groups is None else groups[rows]
            weights = None if weights is None else weights[rows]
            if isinstance(self.target_, targets.Numbers) and not start:  # its means are learned
                self.target_ = self.find_target(values[:, 0] if self.target_.is_single else values)
        parts |= {"train": (objects, values), "valid": ([], values[:0])}
        of_part |= {} if groups is None else {"train": groups}
        weighted = {} if weights is None else {"train": weights}
        if validation is not None:
            others, wanted = targets.pair_of(validation)
            parts["valid"] = self.checked_objects(others), self.target_.encode(as_sequence(wanted))
            targets.require_same_length(*parts["valid"])
        elif share := fitting.validation_fraction(self.valid_fraction, len(values)):
            splits = targets.splits_of(self.target_, values, groups, digests)
            rows, held_out = splits.held_out(share, seed)
            parts["train"], parts["valid"] = divided(rows, held_out)
            if groups is not None:
                of_part |= {"train": groups[rows], "valid": groups[held_out]}
            if weights is not None:
                weighted = {"train": weights[rows], "valid": weights[held_out]}
        self.inputs_ = start.inputs_ if start else self.learn_inputs(parts["train"][0], seed)
        network = self.new_network(seed) if self.has_network else None
        fitting.start_from(start, network, str(self.warm_start))
        self.fit_parts(UnsavedRun(), network, parts, seed, groups=of_part, sample_weights=weighted)
        if crossed is not None:
            self.conformal_ = calibrated(self, *crossed)
        self.n_features_in_ = 1
        return self

    def explain(self, X: Any, k: int = 10) -> list[Explanation]:
        """Return each prediction with the contributions that sum to its score.

        Args:
            X: The objects.
            k: Number of contributions to show for each; all of them are returned.

        Raises:
            KindError: The network's output is not a sum of contributions.
        """
        check_is_fitted(self)
        objects = self.checked_objects(X)
        scale, offset = self.target_.unit
        here, explanations = self.on_cpu(), []
        for item, prediction in zip(objects, here.predict(objects), strict=True):
            ((scores, _), *_) = here.moments([item])
            output = int(scores[0].argmax())
            score, constant, parts = self.pool_.explain(
                lambda: self.explain_kernel(item, output),  # noqa: B023  (called at once)
                lambda: here._explain_network(item, output),  # noqa: B023
            )
            numbers = score * scale + offset, constant * scale + offset
            explanations.append(self.explained(item, prediction, *numbers, scaled(parts, scale), k))
        return explanations

    def coverage(self, X: Any, y: Any, *, groups: Any = None) -> Any:
        """Return how often prediction sets or intervals contain the true value.

        Args:
            X: Objects that were not used for training.
            y: Their targets.
            groups: The group of each object ``(N,)``.

        Returns:
            The rate under ``"coverage"``, and those of each class and of each group by their names
            under ``"by_class"`` and ``"by_group"``; of several targets, a list of them.

        Raises:
            ArgumentError: The estimator was fitted without `conformal`.
        """
        fitted, objects = self._fitted_conformal(), self.checked_objects(X)
        values = self.target_.encode(as_sequence(y))
        targets.require_same_length(objects, values)
        names = None if groups is None else np.asarray(as_sequence(groups, "groups"))
        scores, rates = self.conformal_scores(objects, values), []
        for k, column in enumerate(targets.columns_of(self.target_)):
            rows, truth = targets.known_values(self.target_, values, k)
            if fitted.by == "class":
                bound: Any = [fitted.strata[k].get(str(column.names[c]), 1.0) for c in truth]  # type: ignore[union-attr]
            else:
                bound = fitted.of_rows(len(values), names)[k][rows]
            inside = scores[k] <= bound
            rates.append({"coverage": float(inside.mean())})
            if isinstance(column, targets.Classes):
                rates[k]["by_class"] = rates_by([column.names[number] for number in truth], inside)
            if names is not None:
                rates[k]["by_group"] = rates_by(names[rows].tolist(), inside)
        return rates[0] if len(rates) == 1 else rates

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    # ---- how it is done

    fit_parts = fit_parts

    def new_network(self, seed: int) -> nn.Module:
        """Return the network with its initial weights, which depend on the seed alone."""
        config = self._configure(self.inputs_, self.target_.width)
        with generators.initializing(seed):
            network = self._make(config)
        self._initialize(network, self.inputs_, seed)
        return network

    def training_plan(
        self, train: fitting.Examples, valid: fitting.Examples, network: nn.Module, seed: int
    ) -> tuple[TrainingTask, TrainerConfig, Optimizer | None]:
        task = fitting.training_task(
            self, self.inputs_, self.target_, train, valid, seed, self._augmentation()
        )
        return task, fitting.trainer_config(self, self.target_, train, valid, seed), None

    def checked_objects(self, X: Any) -> Sequence[Any]:
        """Return the objects as a sequence, or raise a `DataError` for none or a wrong row."""
        objects = self._check_objects(X)
        if not len(objects):
            raise DataError(f"X has 0 sample(s); at least one {self.noun} is required")
        return objects

    def checked_moments(self, X: Any) -> list[targets.Moments]:
        """Return scores before the link function and their variances, of each target ``(N, W)``."""
        check_is_fitted(self)
        objects = self.checked_objects(X)
        self._warn(objects)
        moments = self.moments(objects)
        if not all(np.isfinite(moment).all() for pair in moments for moment in pair):
            raise DataError(f"the {NOT_FINITE}", fix="Train it again.")
        return moments

    def moments(self, objects: Any) -> list[targets.Moments]:
        """Return the same of checked objects, finite or not."""
        network: Any = [None] * len(self.targets_)
        if any(target.pool.network for target in self.targets_):
            network = network_moments(self, self.inputs_.encode(objects))
        has_kernel = any(target.pool.kernel for target in self.targets_)
        read, result = self.kernel_objects(objects) if has_kernel else None, []
        for target, beside in zip(self.targets_, network, strict=True):
            kernel = target.machine.moments(read) if target.machine and target.pool.kernel else None
            result.append(target.pool.moments(kernel, beside))
        return result

    def _fitted_conformal(self) -> Conformal:
        """Return the quantiles, or raise an `ArgumentError` without them."""
        check_is_fitted(self)
        if self.conformal_ is None:
            expected = "a level such as 0.9, set before `fit`"
            raise ArgumentError("conformal", self.conformal, expected)
        return self.conformal_

    def save_fitted(self, run: RunFolder) -> None:
        super().save_fitted(run)
        if self.conformal_ is not None:
            self.conformal_.write(run)

    def _load_fitted(self, files: RunFiles) -> None:
        super()._load_fitted(files)
        self.conformal_ = Conformal.read(files) if files.has(CONFORMAL_FILE) else None

    def _write_machines(self, run: RunFolder, machines: Sequence[KernelMachine | None]) -> None:
        kernel_machine.write_machines(run, machines)

    def _read_machines(self, files: RunFiles) -> tuple[KernelMachine | None, ...]:
        widths = [column.width for column in targets.columns_of(self.target_)]
        return kernel_machine.read_machines(files, self._new_kernel, widths)


# The two kinds of estimators: classifiers and regressors.


class Classifier(ClassifierMixin, SupervisedEstimator):
    """A classifier of one target ``(N,)``, or of several ``(N, K)``.

    Fitted, it has ``classes_`` ``(C,)``; of several targets, a list of them.
    """

    target_: targets.Classes | targets.ClassTable | LabelSets
    multilabel: bool = False

    def find_target(self, y: Any) -> targets.Classes | targets.ClassTable | LabelSets:
        if self.multilabel:
            return LabelSets.find(y)
        return targets.ClassTable.find(y) if targets.is_table(y) else targets.Classes.find(y)

    @property
    def classes_(self) -> Any:
        """The labels, in the order of the columns of `predict_proba`."""
        if isinstance(self.target_, targets.ClassTable):
            return [targets.as_labels(column.names) for column in self.target_.columns]
        return targets.as_labels(self.target_.names)

    @property
    def thresholds_(self) -> NDArray[np.float64]:
        """The probability from which an object has each label, with several labels an object."""
        return np.array(self.targets_[0].thresholds)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class ``(N, C)``; of several targets, a list of them.

        With several labels an object, it is that of each label ``(N, K)``.
        """
        outputs = np.concatenate([scores for scores, _ in self.checked_moments(X)], axis=1)
        return self.target_.probabilities(outputs)

    def predictions(self, objects: Sequence[Any]) -> list[Predictions]:
        chances = self.predict_proba(objects)
        if isinstance(self.target_, LabelSets):
            are_there = chances > self.thresholds_
            return [
                Predictions(label.astype(np.int64), np.stack([1 - p, p], axis=1))
                for p, label in zip(chances.T, are_there.T, strict=True)
            ]
        tables = chances if isinstance(chances, list) else [chances]
        sets: Any = [None] * len(tables)
        if self.conformal_ is not None:
            sets = self.conformal_.sets(tables, targets.classes_of(self.target_))
        pairs = zip(tables, sets, strict=True)
        return [Predictions(table.argmax(axis=1), table, sets=inside) for table, inside in pairs]

    def predict_set(self, X: Any, *, groups: Any = None) -> list[Any]:
        """Return the labels in the prediction set of each object, the most probable first.

        With the parameter `conformal`, the sets contain the true label with this probability,
        whatever the model; see ``estimators.conformal``. Where no label is probable enough, a set
        is empty.

        Args:
            X: The objects.
            groups: The group of each object ``(N,)``, which ``conformal_by="group"`` needs.

        Returns:
            A tuple of labels for each object; of several targets, a list of them for each.

        Raises:
            ArgumentError: The estimator was fitted without `conformal`.
        """
        conformal = self._fitted_conformal()
        chances = self.predict_proba(X)
        is_single = isinstance(self.target_, targets.Classes)
        tables = [chances] if is_single else chances
        columns = (
            self.target_.columns
            if isinstance(self.target_, targets.ClassTable)
            else (self.target_,)
        )
        names = None if groups is None else np.asarray(as_sequence(groups, "groups"))
        inside_of = conformal.sets(tables, [column.names for column in columns], names)
        sets = [
            [
                tuple(column.names[k] for k in np.argsort(-p, kind="stable") if inside[k])
                for p, inside in zip(table, within, strict=True)
            ]
            for column, table, within in zip(columns, tables, inside_of, strict=True)
        ]
        return sets[0] if is_single else sets

    def conformal_scores(
        self, objects: Sequence[Any], values: NDArray[Any], target: Any = None
    ) -> list[NDArray[np.float64]]:
        chances = self.predict_proba(objects)
        tables = [chances] if isinstance(self.target_, targets.Classes) else chances
        if target is not None:  # whose classes may be more
            columns: Any = zip(
                targets.columns_of(target), targets.columns_of(self.target_), tables, strict=True
            )
            tables = [
                targets.chances_of(column, fitted, table) for column, fitted, table in columns
            ]
        return class_scores(tables, values)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each object ``(N,)`` or ``(N, K)``.

        With several labels an object, they are those above their thresholds, as y of `fit` was
        given: indicators ``(N, K)``, or a tuple of labels for each object.
        """
        chances, classes = self.predict_proba(X), self.classes_
        if isinstance(self.target_, LabelSets):
            return self.target_.predicted(chances > self.thresholds_)
        if isinstance(self.target_, targets.Classes):
            return classes[chances.argmax(axis=1)]
        columns = [labels[p.argmax(axis=1)] for labels, p in zip(classes, chances, strict=True)]
        kinds = {column.dtype.kind for column in columns}
        result = np.empty((len(columns[0]), len(columns)), dtype=object)
        for k, column in enumerate(columns):
            result[:, k] = column
        return result.astype(np.result_type(*columns)) if len(kinds) == 1 else result

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, of several targets over all known labels.

        With several labels an object, all of them have to be right, as in scikit-learn.
        """
        check_is_fitted(self)
        y = as_sequence(y)
        if isinstance(self.target_, LabelSets):
            truth, are_there = self._label_sets(X, y)
            weights = targets.score_weights(sample_weight, truth)
            return float(np.average((are_there == truth).all(axis=1), weights=weights))
        if isinstance(self.target_, targets.Classes):
            truth, chances = self.target_.numbers(y), self.predict_proba(X)
            targets.require_same_length(chances, truth)
            weights = targets.score_weights(sample_weight, truth)
            return float(np.average(chances.argmax(axis=1) == truth, weights=weights))
        values = self.target_.numbers(y)
        predicted = np.stack([p.argmax(axis=1) for p in self.predict_proba(X)], axis=1)
        targets.require_same_length(predicted, values)
        weights = targets.score_weights(sample_weight, values)[:, None] * targets.are_known_values(
            values
        )
        return float(np.average(predicted == values, weights=weights))

    def f1_scores(self, X: Any, y: Any) -> dict[str, float]:
        """Return ``micro_f1`` and ``macro_f1`` of several labels an object."""
        check_is_fitted(self)
        if not isinstance(self.target_, LabelSets):
            raise ArgumentError("multilabel", self.multilabel, "True, set before `fit`")
        return f1_scores(*self._label_sets(X, as_sequence(y)))

    def _label_sets(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the true and the predicted indicators ``(N, K)``."""
        truth, chances = self.target_.encode(y), self.predict_proba(X)
        targets.require_same_length(chances, truth)
        return truth, chances > self.thresholds_


class Regressor(RegressorMixin, SupervisedEstimator):
    """A regressor."""

    target_: targets.Numbers

    def find_target(self, y: Any) -> targets.Numbers:
        return targets.Numbers.find(y)

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> NDArray[np.float64]: ...

    @overload
    def predict(
        self, X: Any, return_std: Literal[True]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the numbers predicted for each object ``(N,)`` or ``(N, K)``.

        Args:
            X: The objects.
            return_std: Also return standard deviations of the same shape, which mix those of the
                parts and are calibrated on the validation data.
        """
        every, means, deviations = self.checked_moments(X), [], []
        units = zip(self.target_.means, self.target_.scales, strict=True)
        for moments, (mean, scale), joint in zip(every, units, self.targets_, strict=True):
            # one of a half without the other
            left = next(iter(joint.calibrations.values()), UNCALIBRATED)
            calibration = joint.calibrations.get(self.answer, left)
            means.append(mean + scale * moments[0])
            deviations.append(calibration.deviations(scale**2 * moments[1]))
        mean = self._shaped(np.concatenate(means, axis=1))
        return (mean, self._shaped(np.concatenate(deviations, axis=1))) if return_std else mean

    def predictions(self, objects: Sequence[Any]) -> list[Predictions]:
        means, deviations = (
            table.reshape(len(table), -1) for table in self.predict(objects, return_std=True)
        )
        halves: Any = [None] * means.shape[1]
        if self.conformal_ is not None:
            halves = self.conformal_.half_widths(deviations).T
        columns = zip(means.T, deviations.T, halves, strict=True)
        return [Predictions(mean, deviations=off, half_widths=half) for mean, off, half in columns]

    def predict_interval(
        self, X: Any, *, groups: Any = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lower and the upper bound of an interval for each object, as `predict` does.

        With the parameter `conformal`, the intervals contain the true number with this
        probability, whatever the model; see ``estimators.conformal``.

        Args:
            X: The objects.
            groups: The group of each object ``(N,)``, which ``conformal_by="group"`` needs.

        Raises:
            ArgumentError: The estimator was fitted without `conformal`.
        """
        fitted = self._fitted_conformal()
        mean, deviation = self.predict(X, return_std=True)
        names = None if groups is None else np.asarray(as_sequence(groups, "groups"))
        half = fitted.half_widths(deviation.reshape(len(deviation), -1), names).reshape(mean.shape)
        return mean - half, mean + half

    def suggest(
        self,
        pool: Any,
        k: int = 10,
        *,
        maximize: bool = True,
        costs: Any = None,
        allowed: Any = None,
        best: float | None = None,
        target: int = 0,
    ) -> NDArray[np.int64]:
        """Return the objects of a pool to measure next, by batch expected improvement.

        The kernel machine is a Gaussian process, which knows how alike the objects of the pool
        are: each suggestion takes into account what those before it will tell.

        Args:
            pool: Objects that have not been measured ``(N,)``.
            k: Number of suggestions.
            maximize: Look for large numbers; otherwise for small ones.
            costs: The cost of measuring each object ``(N,)``; the improvement is divided by it.
            allowed: Booleans ``(N,)``: objects that meet your constraints.
            best: The number to improve on; by default, the best prediction for a training object.
            target: Which of several targets.

        Returns:
            Positions in the pool ``(k,)``, the most promising first.

        Raises:
            ArgumentError: A parameter is out of its range, or the kernel is no Gaussian process.

        References:
            Ginsbourger et al., Kriging Is Well-Suited to Parallelize Optimization, 2010.
        """
        check_is_fitted(self)
        chosen = suggestions(
            self, pool, k, maximize=maximize, costs=costs, allowed=allowed, best=best, target=target
        )
        return np.array([suggestion.position for suggestion in chosen], np.int64)

    def conformal_scores(
        self, objects: Sequence[Any], values: NDArray[Any], target: Any = None
    ) -> list[NDArray[np.float64]]:
        tables = self.predict(objects, return_std=True)
        means, deviations = (array.reshape(values.shape) for array in tables)
        return number_scores(means, deviations, values)

    def _shaped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values[:, 0] if self.target_.is_single else values

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the known numbers, the mean over the targets that have some."""
        from sklearn.metrics import r2_score

        check_is_fitted(self)
        truth, predicted = self.target_.encode(as_sequence(y)), self.predict(X)
        targets.require_same_length(predicted, truth)
        predicted = predicted.reshape(truth.shape)
        weights = targets.score_weights(sample_weight, truth)
        scores, are_known = [], targets.are_known_values(truth)
        for k in np.flatnonzero(are_known.any(axis=0)):
            rows = are_known[:, k]
            scores.append(r2_score(truth[rows, k], predicted[rows, k], sample_weight=weights[rows]))
        return float(np.mean(scores))
