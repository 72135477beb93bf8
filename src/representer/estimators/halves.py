"""Kernel and network as the halves of one estimator: weights, shares, saving."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from representer.errors import ArgumentError
from representer.estimators import kernel_machine, pool
from representer.estimators.explanation import KERNEL, NETWORK, Part
from representer.estimators.network_estimator import NetworkEstimator
from representer.estimators.pool import Pool
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder


class Halves(NetworkEstimator):
    """The base of estimators whose parameter `answer` chooses kernel, network or both.

    Attributes:
        machine_: The kernel machine; None with ``answer="network"``.
        pool_: The weights of both parts, found on the validation data.
    """

    answer: str
    machine_: Any = None
    pool_: Pool = Pool(0.0, 1.0, 0.0, 1.0)  # the network alone

    def _read_machine(self, files: RunFiles) -> Any:
        """Return the kernel machine of a run."""
        raise NotImplementedError

    @property
    def kernel_(self) -> Any:
        """The fitted kernel; None with ``answer="network"``."""
        check_is_fitted(self)
        return None if self.machine_ is None else self.machine_.kernel

    @property
    def share_(self) -> dict[str, float]:
        """The part of the spread of the scores that each half makes up."""
        check_is_fitted(self)
        return {KERNEL: self.pool_.share, NETWORK: 1 - self.pool_.share}

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
        fitted = {KERNEL: self.machine_ is not None, NETWORK: self.network_ is not None}
        known = [name for name in (KERNEL, NETWORK) if fitted[name]]
        if answer == self.answer:
            return self
        if answer not in known:
            raise ArgumentError("answer", answer, " or ".join(map(repr, known)))
        one = copy.copy(self)
        one.answer = answer
        one.pool_ = self.pool_.only_kernel() if answer == KERNEL else self.pool_.only_network()
        return one

    @property
    def parts_(self) -> dict[str, Part]:
        """The fitted parts by name; one that added nothing has the share 0."""
        check_is_fitted(self)
        seconds: dict[str, float | None] = {}
        if self.machine_ is not None and self.answer != NETWORK:
            seconds[KERNEL] = self.machine_.seconds
        if self.has_network:
            seconds[NETWORK] = self._seconds
        return {name: Part(self.share_[name], own) for name, own in seconds.items()}

    @property
    def has_network(self) -> bool:
        """False if the kernel machine alone predicts."""
        return self.answer != KERNEL

    # ---- how it is done

    def _count_parameters(self, names: Mapping[str, str]) -> dict[str, int]:
        counts = super()._count_parameters(names)
        if self.machine_ is None:
            return counts
        size = self.machine_.size
        return {KERNEL: size} | counts | {"all": counts["all"] + size}

    def _save_fitted(self, run: RunFolder) -> None:
        super()._save_fitted(run)
        self.pool_.write(run)
        if self.machine_ is not None:
            self.machine_.write(run)

    def _load_fitted(self, files: RunFiles) -> None:
        super()._load_fitted(files)
        if files.has(pool.FILE):
            self.pool_ = Pool.read(files)
        if files.has(kernel_machine.DESCRIPTION):
            self.machine_ = self._read_machine(files)
