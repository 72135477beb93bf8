"""Fitting, predicting and saving, written once for every estimator.

An estimator is a dataclass of parameters (`TargetParameters`), the inputs of its network (how
objects become batches), and what it predicts (`Classes` or `Numbers`). A subclass gives the inputs
and the network; everything else is here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import nn

from representer.errors import DataError, KindError
from representer.estimators import saving
from representer.estimators.conformal_estimator import (
    CALIBRATION,
    ConformalEstimator,
    LabeledObjects,
)
from representer.estimators.division import divide
from representer.estimators.explanation import Contribution, Explanation
from representer.estimators.fitting import (
    Examples,
    Inputs,
    batch_size_for,
    outputs_of,
    trainer_config,
    training_task,
)
from representer.estimators.targets import as_sequence, require_same_length
from representer.storage.run_folder import RunFolder, UnsavedRun
from representer.training import generators
from representer.training.trainer_config import TrainerConfig
from representer.training.training_result import TrainingResult
from representer.training.training_task import TrainingTask

NOT_FINITE = "predictions are not finite"


class Estimator(ConformalEstimator):
    """The base of all estimators of objects and their targets; see the module."""

    _noun: ClassVar[str]  # of one object, for messages

    # ---- what a subclass gives

    @abstractmethod
    def _check_objects(self, X: Any) -> Sequence[Any]:
        """Return the objects as a sequence, after checking each.

        Raises:
            DataError: One cannot be used; the message names its row.
        """

    @abstractmethod
    def _learn_inputs(self, objects: Sequence[Any], seed: int) -> Inputs:
        """Return the inputs, learned from the training objects."""

    @abstractmethod
    def _configure(self, inputs: Any, width: int) -> Any:
        """Return the configuration of the network, a dataclass of plain values."""

    def _initialize(self, network: Any, inputs: Any, seed: int) -> None:
        """Change the initial weights, for example to pretrained ones."""

    def _augmentation(self) -> Callable[..., tuple[Any, ...]] | None:
        """Return a function that changes the network's arguments at random in training."""
        return None

    def _plan(
        self, train: Examples, valid: Examples, seed: int
    ) -> tuple[TrainingTask, TrainerConfig]:
        """Return batches, loss and evaluation, and the configuration of the trainer."""
        batch_size = batch_size_for(self, len(train.objects))
        task = training_task(
            self.inputs_, self.target_, train, valid, batch_size, seed, self._augmentation()
        )
        return task, trainer_config(self, self.target_, train, valid, seed)

    def _explain(self, one: Any) -> tuple[float, float, list[Contribution]]:
        """Return the network's output for an object, its constant part, and contributions.

        The three are in the network's own unit; output and sum agree.
        """
        kind = type(self).__name__
        raise KindError("explain", f"called on a {kind}", "an estimator with contributions")

    # ---- what a user calls

    def fit(self, X: Any, y: Any, *, groups: Any = None, validation: Any = None) -> Self:
        """Train on objects and targets.

        Args:
            X: The objects ``(N,)``.
            y: The targets ``(N,)`` or, for numbers, ``(N, K)``.
            groups: The group of each object ``(N,)``; validation holds out whole groups.
            validation: A pair ``(X, y)`` that selects the best epoch; by default a part of the
                training data, `valid_fraction`, is held out for this.

        Returns:
            The fitted estimator.

        Raises:
            DataError: An object or a target cannot be used; the message names its row.
            ArgumentError: A parameter is out of its range.
        """
        return self._fit(UnsavedRun(), X, y, groups, validation)

    @abstractmethod
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the prediction for each object."""

    def explain(self, X: Any, k: int = 10) -> list[Explanation]:
        """Return each prediction with the contributions that sum to its score.

        Args:
            X: The objects.
            k: Number of contributions to show for each; all of them are returned.
        """
        check_is_fitted(self)
        objects = self._objects(X)
        scale, offset = self.target_.unit
        explanations = []
        for one, prediction in zip(objects, self.predict(objects), strict=True):
            score, constant, parts = self._explain(one)
            scaled = [part._replace(contribution=part.contribution * scale) for part in parts]
            ordered = tuple(sorted(scaled, key=lambda part: -abs(part.contribution)))
            numbers = score * scale + offset, constant * scale + offset
            explanations.append(Explanation(prediction, *numbers, ordered, k))
        return explanations

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: targets may have several columns."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    # ---- how it is done

    def _fit(self, run: RunFolder, X: Any, y: Any, groups: Any, validation: Any) -> Self:
        """Train in a run folder, from its newest checkpoint if it is opened to be resumed."""
        self._check_parameters()
        objects = self._objects(X)
        if y is None:
            problem = f"{type(self).__name__} requires y to be passed, but the target y is None"
            raise DataError(problem)
        if len(objects) == 1:
            raise DataError("X has 1 sample; at least 2 are needed to fit", fix="Add examples.")
        y = as_sequence(y)
        require_same_length(objects, y)
        if groups is not None:
            groups = np.array([str(group) for group in groups])
            require_same_length(objects, groups, "groups")
        seed = self._seed()
        start = self._load_start()
        self.target_ = start.target_ if start else self._find_target(y)
        values = self.target_.encode(y)
        parts: dict[str, LabeledObjects] = {}
        if self.conformal is not None:
            rest, parts[CALIBRATION], groups = self._hold_out(objects, values, groups, seed)
            objects, values = rest
        if validation is None and not self.valid_fraction:
            train, valid = (objects, values), ([], values[:0])
        elif validation is None:
            rows, held_out = divide(self.target_, values, groups, self.valid_fraction, seed)
            train = [objects[i] for i in rows], values[rows]
            valid = [objects[i] for i in held_out], values[held_out]
            groups = None if groups is None else groups[rows]
        else:
            targets = self.target_.encode(as_sequence(validation[1]))
            train, valid = (objects, values), (self._objects(validation[0]), targets)
            require_same_length(*valid)
        self.inputs_ = start.inputs_ if start else self._learn_inputs(train[0], seed)
        parts |= {"train": train, "valid": valid}
        network = self.new_network(seed) if self.has_network else None
        self._start_from(start, network)
        self.fit_parts(run, network, parts, seed, groups=groups)
        self.n_features_in_ = 1
        return self

    def fit_parts(
        self,
        run: RunFolder,
        network: nn.Module | None,
        parts: Mapping[str, LabeledObjects],
        seed: int,
        *,
        groups: Any = None,
        encoded: Mapping[str, Sequence[Any]] | None = None,
        settings: Callable[[TrainerConfig], dict[str, Any]] = lambda config: {},
        reading: dict[str, Any] | None = None,
    ) -> TrainingResult | None:
        """Train the network, if there is one, and fit what predicts beside it.

        Args:
            run: The folder for checkpoints, metrics and what is fitted.
            network: With its initial weights; None if a kernel machine alone predicts.
            parts: Objects and encoded targets of ``"train"`` and ``"valid"``, and of
                ``"calibration"`` with conformal prediction.
            seed: Of the order of the examples and of dropout.
            groups: The group of each training object, or None.
            encoded: Objects of the parts as inputs of the network, if they are known already.
            settings: What else determines a run that is resumed, from the trainer's configuration.
            reading: How the command line read the training data.

        Returns:
            The result of the network's training.
        """
        self.examples_ = {name: len(values) for name, (_, values) in parts.items()}
        result = self.conformal_ = None
        if network is None:
            self._train_none(run, reading)
        else:
            encode, examples = self.inputs_.encode, []
            for name in ("train", "valid"):
                objects, values = parts[name]
                own = encoded[name] if encoded else encode(objects) if len(objects) else []
                examples.append(Examples(own, values))
            about = {"settings": settings, "reading": reading}
            result = self.train_on(run, network, examples[0], examples[1], seed, **about)
        self.join(run, parts["train"], parts["valid"], groups)
        self._calibrate(run, parts.get(CALIBRATION))
        return result

    def join(
        self, run: RunFolder, train: LabeledObjects, valid: LabeledObjects, groups: Any = None
    ) -> None:
        """Fit what predicts beside the network, after it was trained.

        Args:
            run: The folder of the run.
            train: Training objects and their encoded targets.
            valid: Validation objects and their encoded targets.
            groups: The group of each training object, or None.
        """

    def new_network(self, seed: int) -> nn.Module:
        """Return the network with its initial weights, which depend on the seed alone."""
        config = self._configure(self.inputs_, self.target_.width)
        with generators.initializing(seed):
            network = self._make(config)
        self._initialize(network, self.inputs_, seed)
        return network

    def train_on(
        self,
        run: RunFolder,
        network: nn.Module,
        train: Examples,
        valid: Examples,
        seed: int,
        *,
        settings: Callable[[TrainerConfig], dict[str, Any]] = lambda config: {},
        reading: dict[str, Any] | None = None,
    ) -> TrainingResult:
        """Train the network on examples.

        Args:
            run: The folder for checkpoints and metrics.
            network: With its initial weights.
            train: The training examples.
            valid: The validation examples.
            seed: Of the order of the examples and of dropout.
            settings: What else determines a run that is resumed, from the trainer's configuration.
            reading: How the command line read the training data.
        """
        task, config = self._plan(train, valid, seed)
        return self._train_network(run, network, task, config, None, settings(config), reading)

    def _objects(self, X: Any) -> Sequence[Any]:
        objects = self._check_objects(X)
        if not len(objects):
            raise DataError(f"X has 0 sample(s); at least one {self._noun} is required")
        return objects

    def _save_target(self) -> dict[str, Any]:
        return saving.target_values(self.target_)

    def _load_target(self, values: dict[str, Any]) -> None:
        self.target_ = saving.read_target(values)
        self.n_features_in_ = 1

    def _predicted(self, X: Any) -> NDArray[np.float64]:
        """Return the network's outputs for objects ``([M,] N, W)``."""
        check_is_fitted(self)
        outputs = outputs_of(self.network_, self.inputs_, self.inputs_.encode(self._objects(X)))
        if not np.isfinite(outputs).all():
            raise DataError(f"the network's {NOT_FINITE}", fix="Train it again.")
        return outputs
