"""Kernel and network as the halves of one estimator: weights, shares, saving."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from representer.estimators import kernel_machine, pool
from representer.estimators.explanation import KERNEL, NETWORK, Part
from representer.estimators.joint_target import (
    NETWORK_ALONE,
    JointTarget,
    read_targets,
    write_targets,
)
from representer.estimators.network_estimator import NetworkEstimator
from representer.estimators.pool import Pool
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder


class Halves(NetworkEstimator):
    """The base of estimators whose parameter `answer` chooses kernel, network or both.

    Attributes:
        targets_: Kernel machine, weights of both parts and calibration of each target.
    """

    answer: str
    targets_: tuple[JointTarget, ...] = (NETWORK_ALONE,)

    # ---- what a subclass gives

    @abstractmethod
    def _are_numbers(self) -> list[bool]:
        """Return for each target whether it is a number."""

    @abstractmethod
    def _write_machines(self, run: RunFolder, machines: Sequence[Any]) -> None:
        """Write the kernel machine of each target."""

    @abstractmethod
    def _read_machines(self, files: RunFiles) -> Sequence[Any]:
        """Return the kernel machine of each target of a run."""

    # ---- what a user reads

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
        """The part of the spread of the scores that each half makes up, the mean over targets."""
        check_is_fitted(self)
        share = float(np.mean([one.pool.share for one in self.targets_]))
        return {KERNEL: share, NETWORK: 1 - share}

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

    @property
    def has_network(self) -> bool:
        """False if the kernel machine alone predicts."""
        return self.answer != KERNEL

    # ---- how it is done

    @property
    def _machines(self) -> list[Any]:
        return [one.machine for one in self.targets_ if one.machine is not None]

    def _count_parameters(self, names: Mapping[str, str]) -> dict[str, int]:
        counts = super()._count_parameters(names)
        if not self._machines:
            return counts
        size = sum(machine.size for machine in self._machines)
        return {KERNEL: size} | counts | {"all": counts["all"] + size}

    def _save_fitted(self, run: RunFolder) -> None:
        super()._save_fitted(run)
        write_targets(run, self.targets_)
        if self._machines:
            self._write_machines(run, self._machines)

    def _load_fitted(self, files: RunFiles) -> None:
        super()._load_fitted(files)
        are_numbers = self._are_numbers()
        self.targets_ = (NETWORK_ALONE,) * len(are_numbers)  # while training has not ended
        if files.has(pool.FILE):
            has_machines = files.has(kernel_machine.DESCRIPTION)
            machines = self._read_machines(files) if has_machines else [None] * len(are_numbers)
            self.targets_ = read_targets(files, machines, are_numbers)
