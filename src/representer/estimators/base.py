"""The base of all estimators: a kernel machine, a trained network, a seed, and saving."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import nn
from torch.optim import Optimizer

from representer.errors import ArgumentError
from representer.estimators import kernel_machine, pool, saving
from representer.estimators.explanation import KERNEL, NETWORK, Explanation, Part
from representer.estimators.joint_target import (
    NETWORK_ALONE,
    JointTarget,
    read_targets,
    write_targets,
)
from representer.estimators.parameters import TrainingParameters
from representer.estimators.pool import Pool
from representer.estimators.targets import Numbers, columns_of
from representer.report.page import Results, render
from representer.requirements import SuggestsArguments
from representer.storage import atomic
from representer.storage.fields import from_values
from representer.storage.run_folder import RunFolder
from representer.training.trainer_config import TrainerConfig
from representer.training.training_task import TrainingTask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from representer.storage.run_files import RunFiles


class Estimator(SuggestsArguments, TrainingParameters, BaseEstimator, ABC):
    """An estimator of any kind, whose parameter `answer` chooses kernel, network or both.

    Attributes:
        network_: The trained network; None with ``answer="kernel"``.
        targets_: Kernel machine, weights of both parts and calibration of each target.
        examples_: Number of training and validation examples, or tokens.
    """

    _task: ClassVar[str] = ""  # on the command line
    _config: ClassVar[type[Any]]  # of the network's configuration
    _results_of: ClassVar[Callable[..., Results]]  # what `report` shows
    _input_tags: ClassVar[tuple[str, ...]] = ()  # of scikit-learn's InputTags, those that hold
    _seconds: float | None = None  # of the network's training
    answer: str
    inputs_: Any  # the conversion of objects to batches
    target_: Any  # Classes, ClassTable or Numbers
    network_: Any
    targets_: tuple[JointTarget, ...] = (NETWORK_ALONE,)
    examples_: dict[str, int]
    history_: Any

    # ---- what a subclass gives

    @staticmethod
    @abstractmethod
    def _make(config: Any) -> nn.Module:
        """Return the network of a configuration; it keeps it as ``config``."""

    @abstractmethod
    def _plan(
        self, train: Any, valid: Any, network: nn.Module, seed: int
    ) -> tuple[TrainingTask, TrainerConfig, Optimizer | None]:
        """Return batches, loss and evaluation, the trainer's configuration, and the optimizer.

        The optimizer is the trainer's own, Adam, if it is None.
        """

    def _read_config(self, values: dict[str, Any]) -> Any:
        """Return the configuration of the network that was saved as plain values."""
        return from_values(self._config, values)

    def _require_sizes(self, config: Any) -> None:
        """Raise a ValueError unless the network fits inputs and targets."""

    @abstractmethod
    def _save_inputs(self, run: RunFolder) -> dict[str, Any]:
        """Return the inputs as plain values, after writing larger parts as files of their own."""

    @abstractmethod
    def _load_inputs(self, files: RunFiles, values: Any) -> Any:
        """Return the inputs that `_save_inputs` wrote."""

    @abstractmethod
    def _write_machines(self, run: RunFolder, machines: Sequence[Any]) -> None:
        """Write the kernel machine of each target."""

    @abstractmethod
    def _read_machines(self, files: RunFiles) -> Sequence[Any]:
        """Return the kernel machine of each target of a run."""

    def _explanation_details(self, one: Any, explanation: Explanation) -> dict[str, Any]:
        """Return what a report shows of an explained object besides its contributions."""
        return {}

    @property
    def _network_name(self) -> str:
        """Name of the network in reports."""
        return type(self).__name__

    # ---- what a user reads

    @property
    def has_network(self) -> bool:
        """False if the kernel machine alone predicts."""
        return self.answer != KERNEL

    @property
    def machine_(self) -> Any:
        """The kernel machine of the first target; None with ``answer="network"``."""
        return self.targets_[0].machine if self.targets_ else None

    @property
    def pool_(self) -> Pool:
        """The weights of both parts for the first target, found on the validation data."""
        return self.targets_[0].pool

    @property
    def kernel_(self) -> Any:
        """The fitted kernel of the first target; None with ``answer="network"``."""
        check_is_fitted(self)
        return None if self.machine_ is None else self.machine_.kernel

    @property
    def share_(self) -> dict[str, float]:
        """The part of the spread of the scores that each part makes up, the mean over targets."""
        check_is_fitted(self)
        share = float(np.mean([one.pool.share for one in self.targets_]))
        return {KERNEL: share, NETWORK: 1 - share}

    @property
    def parts_(self) -> dict[str, Part]:
        """The fitted parts by name; one that added nothing has the share 0."""
        check_is_fitted(self)
        seconds: dict[str, float | None] = {}
        if self._machines and self.answer != NETWORK:
            seconds[KERNEL] = sum(machine.seconds for machine in self._machines)
        if self.has_network:
            seconds[NETWORK] = self._seconds
        return {name: Part(self.share_[name], own) for name, own in seconds.items()}

    # ---- what a user calls

    def part(self, answer: str) -> Self:
        """Return one part of an estimator that was fitted with ``answer="both"``.

        It shares the fitted kernel machine or network, and predicts as an estimator with this
        `answer` does that was fitted to the same data with the same seed.

        Args:
            answer: ``"kernel"`` or ``"network"``; ``"both"`` returns the estimator itself.

        Raises:
            ArgumentError: The estimator has no such part.
        """
        check_is_fitted(self)
        if answer == self.answer:
            return self
        one = copy.copy(self)
        one.targets_ = tuple(target.part(answer) for target in self.targets_)
        one.answer = answer
        vars(one).pop("conformal_", None)  # of the predictions of both
        return one

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
    def load(cls, folder: str | Path, *, device: str = "cpu") -> Self:
        """Return the fitted estimator of a run folder.

        Args:
            folder: The folder that `save` or ``representer fit`` wrote.
            device: Device of its network: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``, or
                ``"auto"``, a CUDA device if there is one.

        Raises:
            ArgumentError: There is no such device.
            DataError: The folder holds no estimator of this class, or a damaged one.
            CheckpointError: Its weights are damaged.
        """
        return saving.load(folder, cls, device=device)

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

    @property
    def _machines(self) -> list[Any]:
        return [one.machine for one in self.targets_ if one.machine is not None]

    def _on_cpu(self) -> Self:
        """Return the estimator with its network on the CPU, where it is explained in float64."""
        if self.network_ is None or next(self.network_.parameters()).device.type == "cpu":
            return self
        one = copy.copy(self)
        one.network_ = copy.deepcopy(self.network_).cpu()
        return one

    def _check_parameters(self) -> None:
        """Check every parameter, after replacing NumPy's numbers, as of a grid, by Python's."""
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, np.generic):
                setattr(self, name, value.item())
        self.check()

    def _save_fitted(self, run: RunFolder) -> None:
        """Write what is fitted besides the network."""
        write_targets(run, self.targets_)
        if self._machines:
            self._write_machines(run, [one.machine for one in self.targets_])

    def _load_fitted(self, files: RunFiles) -> None:
        """Restore what `_save_fitted` wrote; the network is there already."""
        are_numbers = [isinstance(column, Numbers) for column in columns_of(self.target_)]
        self.targets_ = (NETWORK_ALONE,) * len(are_numbers)  # while training has not ended
        if files.has(pool.FILE):
            has_machines = files.has(kernel_machine.DESCRIPTION)
            machines = self._read_machines(files) if has_machines else [None] * len(are_numbers)
            self.targets_ = read_targets(files, machines, are_numbers)
