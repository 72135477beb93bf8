"""Estimators that predict with an exact kernel and a network together."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from representer.errors import ArgumentError, DataError
from representer.estimators import kernel_machine, pool
from representer.estimators.base import Estimator, LabeledObjects
from representer.estimators.classes import Classes
from representer.estimators.explanation import BOTH, KERNEL, NETWORK, Contribution, Part
from representer.estimators.fitting import outputs_of
from representer.estimators.kernel_machine import ExplicitKernel, KernelMachine
from representer.estimators.kernel_selection import CANDIDATES, Split, select, splits_of
from representer.estimators.pool import Pool
from representer.estimators.targets import Numbers
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder

Explained = tuple[float, float, list[Contribution]]


class JointEstimator(Estimator):
    """The base of estimators whose parameter `answer` chooses kernel, network or both.

    Attributes:
        machine_: The kernel machine; None with ``answer="network"``.
        pool_: The weights of both parts, found on the validation data.
    """

    _is_kernel_unsupervised: ClassVar[bool] = False  # it learns nothing from classes
    _penalties: ClassVar[Sequence[float]] = CANDIDATES
    answer: str
    machine_: KernelMachine | None = None
    pool_: Pool = Pool(0.0, 1.0, 0.0, 1.0)  # the network alone

    # ---- what a subclass gives

    def _new_kernel(self) -> ExplicitKernel:
        """Return the exact kernel, before it is fitted."""
        raise NotImplementedError

    def _kernels(self, objects: Any) -> Sequence[ExplicitKernel]:
        """Return the kernels to choose from for some objects, as `_for_kernel` returned them."""
        return [self._new_kernel()]

    def _for_kernel(self, objects: Any) -> Any:
        """Return objects as the kernel takes them: a sequence that can be sliced."""
        return objects

    def _explain_network(self, one: Any, output: int) -> Explained:
        """Return an output of the network, its constant part and its contributions."""
        raise NotImplementedError

    def _explain_kernel(self, one: Any, output: int) -> Explained:
        """Return an output of the kernel machine, its constant part and its contributions."""
        raise NotImplementedError

    # ---- what a user reads

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

    # ---- how it is done

    @property
    def has_network(self) -> bool:
        """False if the kernel machine alone predicts."""
        return self.answer != KERNEL

    def join(
        self, run: RunFolder, train: LabeledObjects, valid: LabeledObjects, groups: Any = None
    ) -> None:
        """Fit the kernel machine and the weights of both parts.

        The machine is fitted to the training part, the weights on the validation part, and then
        the machine again to both parts. Its kernel and C are chosen on the validation part or, if
        the training part has groups and the kernel learns nothing from classes, by
        cross-validation that holds out whole groups. Without a validation part, the weights are
        those of `Pool.unvalidated`.
        """
        self.machine_ = None
        target = self.target_
        has_kernel = self.answer != NETWORK
        if has_kernel and not self._is_for_kernel(train[1], valid[1]):
            if self.answer == KERNEL:
                expected = f"{NETWORK!r} or {BOTH!r}, for several targets"
                raise ArgumentError("answer", self.answer, expected)
            has_kernel = False
        scores: list[NDArray[np.float64] | None] = [None, None]
        is_held_out = len(valid[1]) > 0
        weighed = valid if is_held_out else train
        if self.has_network:
            encoded = self.inputs_.encode(weighed[0])
            scores[1] = outputs_of(self.network_, self.inputs_, encoded)
        if has_kernel:
            scores[0] = self._fit_machine(train, valid, groups)
        weigh = Pool.fit if is_held_out else Pool.unvalidated
        self.pool_ = weigh(target, scores[0], scores[1], weighed[1])
        if run.is_saved:
            self._save_fitted(run)

    def _fit_machine(
        self, train: LabeledObjects, valid: LabeledObjects, groups: Any
    ) -> NDArray[np.float64]:
        """Fit the kernel machine, and return scores of objects that it was not fitted to.

        Returns:
            The scores of the validation objects or, without any, of the training objects.
        """
        started = time.perf_counter()
        count = len(train[1])
        objects = self._for_kernel([*train[0], *valid[0]])
        values = np.concatenate([train[1], valid[1]])
        parts = (objects[:count], train[1]), (objects[count:], valid[1])
        splits = self._splits(train[1], groups, is_required=not len(valid[1]))
        kernels = self._kernels(objects)
        chosen = select(kernels, self.target_, *parts, splits, self._penalties)
        scores = chosen.scores
        if splits and len(valid[1]):
            machine = KernelMachine.fit(chosen.kernel, self.target_, *parts[0], chosen.penalty)
            scores = machine.scores(parts[1][0])
        kernel: Any = clone(chosen.kernel)
        self.machine_ = KernelMachine.fit(kernel, self.target_, objects, values, chosen.penalty)
        self.machine_.seconds = time.perf_counter() - started
        return scores

    def _splits(self, values: NDArray[Any], groups: Any, *, is_required: bool) -> list[Split]:
        """Return the parts of a cross-validation, or none to use the validation part."""
        if not self._is_kernel_unsupervised or not (is_required or groups is not None):
            return []
        found = [] if groups is None else splits_of(values, np.asarray(groups))
        return found or (splits_of(values, None) if is_required else [])

    def _count_parameters(self, names: Mapping[str, str]) -> dict[str, int]:
        counts = super()._count_parameters(names)
        if self.machine_ is None:
            return counts
        size = self.machine_.size
        return {KERNEL: size} | counts | {"all": counts["all"] + size}

    def _is_for_kernel(self, *values: NDArray[Any]) -> bool:
        """Return True for one target of classes, or numbers that are all known."""
        if isinstance(self.target_, Classes):
            return True
        is_known = not any(np.isnan(part).any() for part in values)
        return isinstance(self.target_, Numbers) and is_known

    def _predicted(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        scores = self._scores(self._objects(X))
        if not np.isfinite(scores).all():
            raise DataError("the predictions are not finite", fix="Train it again.")
        return scores

    def _scores(self, objects: Any) -> NDArray[np.float64]:
        """Return the scores of objects before the link function ``(N, W)``."""
        if self.pool_.network == 0 and self.machine_ is not None:
            return self.pool_.scores(self.machine_.scores(self._for_kernel(objects)), None)
        outputs = outputs_of(self.network_, self.inputs_, self.inputs_.encode(objects))
        kernel = (
            self.machine_.scores(self._for_kernel(objects))
            if self.machine_ and self.pool_.kernel
            else None
        )
        return self.pool_.scores(kernel, outputs)

    def _explain(self, one: Any) -> Explained:
        output = int(self._scores([one])[0].argmax())
        score, constant, parts = 0.0, 0.0, []
        for weight, explain in (
            (self.pool_.kernel, self._explain_kernel),
            (self.pool_.network, self._explain_network),
        ):
            if weight:
                own, fixed, found = explain(one, output)
                score, constant = score + weight * own, constant + weight * fixed
                parts += [p._replace(contribution=weight * p.contribution) for p in found]
        return score, constant, parts

    def _validation_loss(self) -> float:
        return self.pool_.loss

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
            self.machine_ = KernelMachine.read(files, self._new_kernel(), self.target_.width)
