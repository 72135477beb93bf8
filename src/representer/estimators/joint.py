"""Estimators of objects that predict with an exact kernel and a network together."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from representer.errors import DataError
from representer.estimators.base import NOT_FINITE, Estimator, LabeledObjects
from representer.estimators.explanation import NETWORK
from representer.estimators.feature_kernel import FeatureKernel
from representer.estimators.fitting import outputs_of
from representer.estimators.halves import Halves
from representer.estimators.joint_target import JointTarget
from representer.estimators.kernel_machine import KernelMachine, read_machines, write_machines
from representer.estimators.kernel_selection import CANDIDATES, fit_machine
from representer.estimators.pool import Explained, Moments, Pool
from representer.estimators.targets import Column, Numbers, columns_of, known_values
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder


class JointEstimator(Halves, Estimator):
    """The base of such estimators of objects and their targets."""

    _is_kernel_unsupervised: ClassVar[bool] = False  # it learns nothing from classes
    _penalties: ClassVar[Sequence[float]] = CANDIDATES

    # ---- what a subclass gives

    @abstractmethod
    def _new_kernel(self) -> FeatureKernel:
        """Return the exact kernel, before it is fitted."""

    def _kernels(self, objects: Any) -> Sequence[FeatureKernel]:
        """Return the kernels to choose from for some objects, as `_for_kernel` returned them."""
        return [self._new_kernel()]

    def _for_kernel(self, objects: Any) -> Any:
        """Return objects as the kernel takes them: a sequence that can be sliced."""
        return objects

    @abstractmethod
    def _explain_network(self, one: Any, output: int) -> Explained:
        """Return an output of the network, its constant part and its contributions."""

    @abstractmethod
    def _explain_kernel(self, one: Any, output: int) -> Explained:
        """Return an output of the kernel machine, its constant part and its contributions."""

    def _warn(self, objects: Any) -> None:
        """Warn of objects that differ from those of the training."""

    # ---- how it is done

    def join(
        self, run: RunFolder, train: LabeledObjects, valid: LabeledObjects, groups: Any = None
    ) -> None:
        """Fit the kernel machine and the weights of both parts, for each target by itself.

        The machine is fitted to the training part, the weights on the validation part, and then
        the machine again to both parts. Its kernel and C are chosen on the validation part or, if
        that is small or the training part has groups, by cross-validation. Without a validation
        part, the weights are those of `Pool.unvalidated`.
        """
        self.targets_ = ()
        network: dict[bool, list[Moments]] = {}  # by whether objects are held out
        found = []
        for k, column in enumerate(columns_of(self.target_)):
            rows, held_out = (known_values(self.target_, part[1], k) for part in (train, valid))
            is_held_out = len(held_out[1]) > 0
            objects, (places, values) = (valid[0], held_out) if is_held_out else (train[0], rows)
            machine = kernel = beside = None
            if self.answer != NETWORK:
                parts = [([own[0][row] for row in at], known)
                         for own, (at, known) in ((train, rows), (valid, held_out))]  # fmt: skip
                own = None if groups is None else np.asarray(groups)[rows[0]]
                machine, kernel = self._fit_machine(column, parts[0], parts[1], own)
            if self.has_network:
                if is_held_out not in network:
                    network[is_held_out] = self._network_moments(objects)
                mean, variance = network[is_held_out][k]
                beside = mean[places], variance[places]
            scores = kernel and kernel[0], beside and beside[0]
            weigh = Pool.fit if is_held_out else Pool.unvalidated
            weights = weigh(column, *scores, values)
            found.append(JointTarget.of(column, weights, machine, (kernel, beside), values))
        self.targets_ = tuple(found)
        if run.is_saved:
            self._save_fitted(run)

    def _fit_machine(
        self, target: Column, train: LabeledObjects, valid: LabeledObjects, groups: Any
    ) -> tuple[KernelMachine, Moments]:
        """Return a kernel machine, and moments of objects held out; see `fit_machine`."""
        started = time.perf_counter()
        if not len(train[1]):
            train, groups = valid, None
        count = len(train[1])
        objects = self._for_kernel([*train[0], *valid[0]])
        machine, moments = fit_machine(
            self._kernels(objects), target, objects,
            np.concatenate([train[1], valid[1]]), count, groups, self._penalties,
            is_supervised=not self._is_kernel_unsupervised,
        )  # fmt: skip
        machine.seconds = time.perf_counter() - started
        return machine, moments

    def _network_moments(self, objects: Any) -> list[Moments]:
        """Return the mean and the variance of the members' scores of each target ``(N, W)``."""
        outputs = outputs_of(self.network_, self.inputs_, self.inputs_.encode(objects))
        members = outputs if outputs.ndim == 3 else outputs[None]
        ends = np.cumsum([column.width for column in columns_of(self.target_)])[:-1]
        parts = (np.split(part, ends, axis=1) for part in (members.mean(0), members.var(0)))
        return list(zip(*parts, strict=True))

    def _moments(self, objects: Any) -> list[Moments]:
        """Return scores before the link function and their variances, of each target ``(N, W)``."""
        network: Any = [None] * len(self.targets_)
        if any(one.pool.network for one in self.targets_):
            network = self._network_moments(objects)
        own: Any = None
        if any(one.pool.kernel for one in self.targets_):
            own = self._for_kernel(objects)
        result = []
        for one, beside in zip(self.targets_, network, strict=True):
            kernel = one.machine.moments(own) if one.machine and one.pool.kernel else None
            result.append(one.pool.moments(kernel, beside))
        return result

    def _predicted(self, X: Any) -> NDArray[np.float64]:
        return np.concatenate([scores for scores, _ in self._checked_moments(X)], axis=1)

    def _checked_moments(self, X: Any) -> list[Moments]:
        check_is_fitted(self)
        objects = self._objects(X)
        self._warn(objects)
        moments = self._moments(objects)
        if not all(np.isfinite(part).all() for pair in moments for part in pair):
            raise DataError(f"the {NOT_FINITE}", fix="Train it again.")
        return moments

    def _explain(self, one: Any) -> Explained:
        ((scores, _), *_) = self._moments([one])
        output = int(scores[0].argmax())
        return self.pool_.explain(
            lambda: self._explain_kernel(one, output), lambda: self._explain_network(one, output)
        )

    def _are_numbers(self) -> list[bool]:
        return [isinstance(column, Numbers) for column in columns_of(self.target_)]

    def _write_machines(self, run: RunFolder, machines: Sequence[KernelMachine]) -> None:
        write_machines(run, machines)

    def _read_machines(self, files: RunFiles) -> tuple[KernelMachine, ...]:
        widths = [column.width for column in columns_of(self.target_)]
        return read_machines(files, self._new_kernel, widths)
