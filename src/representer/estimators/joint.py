"""Estimators that predict with an exact kernel and a network together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from representer.errors import ArgumentError, DataError
from representer.estimators.base import Estimator, LabeledObjects
from representer.estimators.classes import Classes
from representer.estimators.explanation import BOTH, KERNEL, NETWORK
from representer.estimators.fitting import outputs_of
from representer.estimators.halves import Halves
from representer.estimators.kernel_machine import ExplicitKernel, KernelMachine
from representer.estimators.kernel_selection import CANDIDATES, Split, select, splits_of
from representer.estimators.pool import Explained, Pool
from representer.estimators.targets import Numbers
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder


class JointEstimator(Halves, Estimator):
    """The base of such estimators of objects and their targets."""

    _is_kernel_unsupervised: ClassVar[bool] = False  # it learns nothing from classes
    _penalties: ClassVar[Sequence[float]] = CANDIDATES
    machine_: KernelMachine | None

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

    # ---- how it is done

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
        return self.pool_.explain(
            lambda: self._explain_kernel(one, output), lambda: self._explain_network(one, output)
        )

    def _validation_loss(self) -> float:
        return self.pool_.loss

    def _read_machine(self, files: RunFiles) -> KernelMachine:
        return KernelMachine.read(files, self._new_kernel(), self.target_.width)
