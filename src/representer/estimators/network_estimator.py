"""The base of all estimators: a trained network, a seed, and saving."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn
from torch.optim import Optimizer

from representer.errors import ArgumentError
from representer.estimators import saving
from representer.estimators.explanation import NETWORK, Explanation, Part
from representer.estimators.fitting import restored_state
from representer.estimators.parameters import TrainingParameters
from representer.report.page import Results, render
from representer.storage import atomic, checkpoint
from representer.storage.fields import from_values
from representer.storage.run_folder import RunFolder
from representer.storage.tensor_file import forms_of, require_same_forms
from representer.training.metrics_log import METRICS_JSONL, as_jsonl
from representer.training.trainer import Trainer
from representer.training.trainer_config import TrainerConfig
from representer.training.training_result import TrainingResult
from representer.training.training_task import TrainingTask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from representer.storage.run_files import RunFiles


class NetworkEstimator(TrainingParameters, BaseEstimator, ABC):
    """An estimator with a trained network, whatever it is fitted to."""

    _task: ClassVar[str] = ""  # on the command line
    _config: ClassVar[type[Any]]  # of the network's configuration
    _results_of: ClassVar[Callable[..., Results]]  # what `report` shows
    _seconds: float | None = None  # of the network's training
    examples_: dict[str, int]  # number of training and validation examples, or tokens
    network_: Any  # the trained module; None where a kernel machine alone predicts
    _input_tags: ClassVar[tuple[str, ...]] = ()  # of scikit-learn's InputTags, those that hold

    # ---- what a subclass gives

    @staticmethod
    @abstractmethod
    def _make(config: Any) -> nn.Module:
        """Return the network of a configuration; it keeps it as ``config``."""

    def _read_config(self, values: dict[str, Any]) -> Any:
        """Return the configuration of the network that was saved as plain values."""
        return from_values(self._config, values)

    def _require_sizes(self, config: Any) -> None:
        """Require a network that fits inputs and targets.

        Raises:
            ValueError: It does not.
        """

    @abstractmethod
    def _save_inputs(self, run: RunFolder) -> dict[str, Any]:
        """Return the inputs as plain values, after writing larger parts as files of their own."""

    @abstractmethod
    def _load_inputs(self, files: RunFiles, values: Any) -> Any:
        """Return the inputs that `_save_inputs` wrote."""

    def _save_target(self) -> dict[str, Any]:
        """Return what is predicted as plain values; nothing if the inputs say it."""
        return {}

    def _load_target(self, values: dict[str, Any]) -> None:
        """Restore what `_save_target` returned."""

    def _save_fitted(self, run: RunFolder) -> None:
        """Write what is fitted besides the network."""

    def _load_fitted(self, files: RunFiles) -> None:
        """Restore what `_save_fitted` wrote; the network is there already."""

    def _explanation_details(self, one: Any, explanation: Explanation) -> dict[str, Any]:
        """Return what a report shows of an explained object besides its contributions."""
        return {}

    @property
    def has_network(self) -> bool:
        """False if a kernel machine alone predicts."""
        return True

    @property
    def _network_name(self) -> str:
        """Name of the network in reports."""
        return type(self).__name__

    @property
    def machine_(self) -> Any:
        """The kernel machine that predicts with the network; None without one."""
        return None

    # ---- what a user calls

    @property
    def parts_(self) -> dict[str, Part]:
        """The fitted parts by name: ``"kernel"``, ``"network"`` or both."""
        check_is_fitted(self)
        return {NETWORK: Part(1.0, self._seconds)}

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator into a new folder, without pickle; `load` reads it.

        Args:
            folder: The run folder; it may exist if it is empty.

        Raises:
            ArgumentError: The folder holds a run or files of the same names.
        """
        check_is_fitted(self)
        saving.save(self, folder)

    def report(
        self, path: str | Path, X: Any = None, y: Any = None, *, k: int = 10, examples: int = 5
    ) -> None:
        """Write a page of the fitted estimator: one HTML file without scripts and links.

        It shows what was fitted, in what time, the shares of kernel and network, and the learning
        curves; for X, explanations of the first objects; for X and y, scores with intervals,
        calibration and errors as well.

        Args:
            path: The file; an existing one is replaced.
            X: Objects that were not used for training; of a language model, a text.
            y: Their targets; a language model needs none.
            k: Number of contributions to show of each explained object.
            examples: Number of objects to explain.

        Raises:
            ArgumentError: There is y without X, or a number is out of its range.
            DataError: An object or a target cannot be used.
            StorageError: The file cannot be written.
        """
        check_is_fitted(self)
        for name, number in (("k", k), ("examples", examples)):
            if not isinstance(number, Integral) or number < 0:
                raise ArgumentError(name, number, "0 or more")
        atomic.write_text(path, render(self._results_of(self, X, y, k, examples)))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the fitted estimator of a run folder.

        Raises:
            DataError: The folder holds no estimator of this class, or a damaged one.
            CheckpointError: Its weights are damaged.
        """
        return saving.load(folder, cls)

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: X is no table of numbers."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        for name in self._input_tags:
            setattr(tags.input_tags, name, True)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Return True after `fit` and `load`."""
        return hasattr(self, "network_")

    # ---- how it is done

    def _count_parameters(self, names: Mapping[str, str]) -> dict[str, int]:
        """Return the number of parameters of each submodule by its name, and of ``"all"``.

        Args:
            names: Other names of some submodules.
        """
        network: nn.Module | None = self.network_
        if network is None:
            return {"all": 0}
        parts = {names.get(name, name): part for name, part in network.named_children()}
        counts = {
            name: sum(p.numel() for p in part.parameters())
            for name, part in (*parts.items(), ("all", network))
        }
        return {name: count for name, count in counts.items() if count}

    def _check_parameters(self) -> None:
        """Check every parameter, after replacing NumPy's numbers, as of a grid, by Python's.

        Raises:
            ArgumentError: A value is out of its range.
        """
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, np.generic):
                setattr(self, name, value.item())
        self.check()

    def _seed(self) -> int:
        return seed_of(self.random_state)

    def _load_start(self) -> Self | None:
        """Return the estimator that training starts from, or None."""
        return type(self).load(str(self.warm_start)) if self.warm_start else None

    def _start_from(self, start: Self | None, network: nn.Module | None) -> None:
        """Copy the weights of the estimator that training starts from, if there is one.

        Raises:
            ArgumentError: It has no network, or one of other sizes.
        """
        if start is None or network is None:
            return
        if start.network_ is None:
            expected = "a run with a network"
            raise ArgumentError("warm_start", str(self.warm_start), expected)
        weights = start.network_.state_dict()
        try:
            require_same_forms(forms_of(weights), forms_of(network.state_dict()))
        except ValueError as error:
            expected = "a run whose network has the sizes of the new one"
            raise ArgumentError(
                "warm_start", str(self.warm_start), expected, hint=f"{error}."
            ) from None
        network.load_state_dict(weights)

    def _train_none(self, run: RunFolder, reading: dict[str, Any] | None = None) -> None:
        """Train no network; a saved run gets its description and an empty history."""
        self.network_, self.history_ = None, []
        if run.is_saved:
            saving.describe(run, self, None, reading)
            run.write_text(METRICS_JSONL, as_jsonl([]))

    def _train_network(
        self,
        run: RunFolder,
        network: nn.Module,
        task: TrainingTask,
        config: TrainerConfig,
        optimizer: Optimizer | None = None,
        settings: dict[str, Any] | None = None,
        reading: dict[str, Any] | None = None,
    ) -> TrainingResult:
        """Train a network and keep its best weights; a new run gets its description first.

        Args:
            run: The folder for description, checkpoints and metrics.
            network: With its initial weights.
            task: Batches, loss and evaluation.
            config: Of the trainer.
            optimizer: Adam if left out.
            settings: What else determines a run that is resumed.
            reading: How the command line read the training data.
        """
        if run.is_saved and not checkpoint.steps(run.checkpoints):
            saving.describe(run, self, network, reading)
        with restored_state(self.n_jobs):
            trainer = Trainer(
                network, task, config, run,
                optimizer=optimizer, settings=settings, callbacks=tuple(self.callbacks or ()),
            )  # fmt: skip
            result = trainer.fit()
            trainer.restore_best()
        self.network_ = network.eval()
        self.history_, self._seconds = result.rows, result.seconds
        return result


def seed_of(random_state: Any) -> int:
    """Return the seed of a random state, which an integer is itself."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
