"""Both halves of an estimator, kernel machine and network: their fit and their weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor, nn

from representer.data.text.words import sampled
from representer.errors import ArgumentError, RepresenterError, TrainingError, say
from representer.estimators.calibration import Calibration, answered, calibrate
from representer.estimators.conformal import calibrated
from representer.estimators.explanation import BOTH, KERNEL, NETWORK, Explained, scaled
from representer.estimators.fitting import Examples, outputs_of
from representer.estimators.kernel_machine import (
    DESCRIPTION,
    ENOUGH,
    KernelMachine,
    announce,
    fit_machine,
)
from representer.estimators.label_sets import LabelSets
from representer.estimators.linear_models import has_many
from representer.estimators.targets import (
    Classes,
    Column,
    Moments,
    Numbers,
    Weighted,
    columns_of,
    example_weights,
    known_values,
)
from representer.machine import limited
from representer.storage import checkpoint
from representer.storage.run import RunFiles, RunFolder
from representer.training import generators
from representer.training.config import METRICS_JSONL, TrainerConfig, as_jsonl
from representer.training.state import TrainingResult
from representer.training.trainer import Trainer

if TYPE_CHECKING:
    from representer.estimators.base import Estimator
    from representer.estimators.supervised import SupervisedEstimator

POOL_FILE = "pool.json"

# examples that the prior of equal weights is worth: fewer where the better part alone has a smaller
# loss than both with this prior, and without a prior, no part has
PRIORS = (4.0, 1.0, 0.1, 0.0)
CAUTION = 15.0  # the same of a prior of the kernel machine alone, see `Pool.cautious`
NEGLIGIBLE = 0.02  # share of the scores below which a part is dropped


@dataclass(frozen=True)
class Pool:
    r"""A weighted sum of the scores of two parts: a log-linear pool of classes, or of numbers.

    .. math::
        s = a\, s_\text{kernel} + b\, s_\text{network}, \qquad a, b \ge 0

    The probabilities are softmax(s), so that a + b also sets the temperature; numbers are
    standardized. Since s is linear in both, so are its explanations.

    Args:
        kernel: a.
        network: b.
        share: The kernel's part of the spread of s, between 0 and 1.
        loss: Of s on the validation objects; without any, on those of `unvalidated`.
        kernel_loss: Of the kernel machine alone; None if there is no machine.
        network_loss: Of the network alone; None if there is no network.
    """

    kernel: float
    network: float
    share: float
    loss: float
    kernel_loss: float | None = None
    network_loss: float | None = None

    @classmethod
    def fit(
        cls, target: Column | Weighted, kernel: NDArray[np.float64] | None,
        network: NDArray[np.float64] | None, values: NDArray[Any], groups: int | None = None,
    ) -> Self:  # fmt: skip
        """Return the weights with the smallest loss on objects that neither part was trained on.

        This loss is never above that of the better part. A part that adds less than 2 % is dropped.
        Scores are ``(N, W)``, None of a part that is missing. ``groups`` is the number of those
        whose objects resemble each other, such as the windows of a subject; the prior then counts
        groups, not objects.
        """
        losses = [
            None if scores is None else target.metrics(scores, values)["valid_loss"]
            for scores in (kernel, network)
        ]
        if kernel is None and network is None:
            raise TrainingError("Neither the kernel machine nor the network has finite scores.")
        if kernel is None or network is None:
            return cls._alone(*losses)
        most = min(loss for loss in losses if loss is not None)
        parts, count = np.stack([kernel, network]), groups or len(values)
        data = target, parts, values
        # each weight is measured in that of its part alone, which of a diverged one is minute
        alone = np.array([_weight_alone(target, half, values, count) for half in parts])
        halves = [cls._of(*data, pair) for pair in (*np.diag(alone), *np.eye(2)) if pair.any()]
        better = min(halves, key=lambda pool: pool.loss)
        for prior, start in product(PRIORS, np.eye(2)):
            factors = _weights(
                target, alone[:, None, None] * parts, values, 0.5, start, prior / count
            )
            both = cls._of(*data, alone * factors)
            if both.loss <= most:
                is_kept = NEGLIGIBLE <= both.share <= 1 - NEGLIGIBLE
                return both if is_kept else better
        return better

    @classmethod
    def cautious(
        cls, target: Column | Weighted, kernel: NDArray[np.float64], network: NDArray[np.float64],
        values: NDArray[Any],
    ) -> Self:  # fmt: skip
        """Return the weights on few objects, with a prior of the kernel machine alone.

        The machine is fitted again to the validation objects, too, which are then a large part of
        all; the network is not. So the weights that are best here give the network too much. The
        prior is as strong as leaves a loss that is not above that of the better part. The
        arguments are those of `fit`.
        """
        parts, count = np.stack([kernel, network]), len(values)
        alone = np.array([_weight_alone(target, half, values, count) for half in parts])
        center = torch.tensor([1.0, 0.0], dtype=torch.float64)
        scaled = alone[:, None, None] * parts
        for halvings in range(9):
            prior = CAUTION / 2**halvings / count
            factors = _weights(target, scaled, values, center, np.eye(2)[0], prior)
            pool = cls._of(target, parts, values, weights := alone * factors)
            least = min(pool.kernel_loss or 0.0, pool.network_loss or 0.0)
            if weights.any() and pool.loss <= least:
                return pool
        return cls.fit(target, kernel, network, values)

    def trusted(
        self, target: Column | Weighted, kernel: NDArray[np.float64] | None,
        network: NDArray[np.float64] | None, values: NDArray[Any], groups: int,
    ) -> Self:  # fmt: skip
        """Return the mean with the weights of the kernel machine alone, which counts as one group.

        Few groups, such as a single subject, do not tell which part is better on others, whatever
        the number of their objects. Nor is the network fitted again to them, as the machine is. The
        loss is at most that of the machine at its best scale. The arguments are those of `fit`.
        """
        if kernel is None or network is None:
            return self
        machine = np.array([_weight_alone(target, kernel, values, groups), 0.0])
        weights = (groups * np.array([self.kernel, self.network]) + machine) / (groups + 1)
        return self._of(target, np.stack([kernel, network]), values, weights)

    @classmethod
    def unvalidated(
        cls, target: Column | Weighted, kernel: NDArray[np.float64] | None,
        network: NDArray[np.float64] | None, values: NDArray[Any],
    ) -> Self:  # fmt: skip
        """Return the weights where no objects were held out.

        s has the spread of the kernel machine's scores at the temperature with the smallest loss.
        The network makes up half of it, or as much as half of its scores: one that was trained too
        briefly less, one with which the loss is above that of the machine none. How confident it is
        on its training objects has no influence otherwise. Scores are those of the training
        objects, of a machine that was not fitted to them, and None of a part that is missing.
        """
        if kernel is None or network is None:
            return cls.fit(target, kernel, network, values)
        parts = np.stack([kernel, network])
        scale = _weight_alone(target, kernel, values, len(values))
        spreads = scale * _spread(kernel), _spread(network)
        weights = np.array([0.0, 1.0])  # where the kernel machine learned nothing
        if spreads[0]:
            weights[1] = min(1.0, spreads[0] / spreads[1]) / 2 if spreads[1] else 0.0
            weights[0] = scale * (1 - weights[1] * spreads[1] / spreads[0])
        both, machine = (cls._of(target, parts, values, pair) for pair in (weights, np.eye(2)[0]))
        return both if both.loss <= machine.loss else machine

    @classmethod
    def _of(
        cls, target: Column | Weighted, parts: NDArray[np.float64], values: NDArray[Any],
        weights: NDArray[np.float64],
    ) -> Self:  # fmt: skip
        """Return the pool with these weights ``(2,)``."""
        spreads = weights * np.array([_spread(half) for half in parts])
        kernel, network = (spreads if spreads.any() else weights).tolist()
        share = kernel / (kernel + network) if weights.any() else 0.0
        first, second = weights.tolist()
        loss, *alone = (
            target.metrics(scores, values)["valid_loss"]
            for scores in (np.tensordot(weights, parts, 1), *parts)
        )
        return cls(first, second, share, loss, alone[0], alone[1])

    @classmethod
    def _alone(cls, kernel_loss: float | None, network_loss: float | None) -> Self:
        """Return the weights of the part that has a loss, without the other one."""
        loss = network_loss if kernel_loss is None else kernel_loss
        assert loss is not None
        is_kernel = float(kernel_loss is not None)
        return cls(is_kernel, 1 - is_kernel, is_kernel, loss, kernel_loss, network_loss)

    def only_kernel(self) -> Self:
        """Return the weights of the kernel machine alone."""
        return self._alone(self.kernel_loss, None)

    def only_network(self) -> Self:
        """Return the weights of the network alone."""
        return self._alone(None, self.network_loss)

    def scores(
        self, kernel: NDArray[np.float64] | None, network: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """Return s of both parts' scores ``(N, W)``; a part of weight 0 may be None."""
        weighted = (self.kernel, kernel), (self.network, network)
        parts = [weight * scores for weight, scores in weighted if scores is not None]
        return sum(parts[1:], parts[0])

    def explain(
        self, kernel: Callable[[], Explained], network: Callable[[], Explained]
    ) -> Explained:
        """Return score, constant part and contributions of both parts, each with its weight."""
        score, constant, contributions = 0.0, 0.0, []
        for weight, explain in ((self.kernel, kernel), (self.network, network)):
            if weight:
                half_score, fixed, terms = explain()
                score, constant = score + weight * half_score, constant + weight * fixed
                contributions += scaled(terms, weight)
        return score, constant, contributions

    def moments(self, kernel: Moments | None, network: Moments | None) -> Moments:
        r"""Return s and the variance of a mixture of both parts, which a and b are the shares of.

        .. math:: v = p\, v_k + (1 - p)\, v_n + p (1 - p) (s_k - s_n)^2, \qquad p = a / (a + b)

        A part of weight 0 may be None.
        """
        if network is None or not self.network:
            assert kernel is not None
            return self.scores(kernel[0], None), kernel[1]
        if kernel is None or not self.kernel:
            return self.scores(None, network[0]), network[1]
        p = self.kernel / (self.kernel + self.network)
        apart = (kernel[0] - network[0]) ** 2
        variance = p * kernel[1] + (1 - p) * network[1] + p * (1 - p) * apart
        return self.scores(kernel[0], network[0]), variance

    def check(self) -> None:
        """Check every value."""
        losses = (self.loss, self.kernel_loss or 0.0, self.network_loss or 0.0)
        numbers = np.array([self.kernel, self.network, *losses])
        if not (np.isfinite(numbers) & (numbers >= 0)).all() or not 0 <= self.share <= 1:
            raise ValueError("the weights are out of their range")


def _centered(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return scores - scores.mean(axis=1, keepdims=True) if scores.shape[1] > 1 else scores


def _spread(scores: NDArray[np.float64]) -> float:
    return float(_centered(scores).std())


def _weight_alone(
    target: Column | Weighted, scores: NDArray[np.float64], values: NDArray[Any], count: int
) -> float:
    """Return the weight of one part without the other; the prior is 1."""
    size = float(np.square(_centered(scores)).mean()) ** 0.5 or 1.0
    start, prior = np.array([min(1.0, size)]), PRIORS[0] / max(1.0, size) ** 2 / count
    return float(_weights(target, scores[None] / size, values, size, start, prior)[0]) / size


def _weights(
    target: Column | Weighted, parts: NDArray[np.float64], values: NDArray[Any],
    center: float | Tensor, start: NDArray[np.float64], prior: float,
) -> NDArray[np.float64]:  # fmt: skip
    """Return the weights ``(P,)`` that minimize the penalized loss, which is convex."""
    scores, truth = torch.from_numpy(parts), torch.from_numpy(values)

    def loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        leaf = torch.tensor(weights, requires_grad=True)
        # not that of `metrics`, which bounds the chances: far from the minimum, it is flat
        total = target.loss(torch.tensordot(leaf, scores, 1), truth)
        total = total + prior * (leaf - center).square().sum()
        (slopes,) = torch.autograd.grad(total, leaf)
        return total.item(), slopes.numpy()

    bounds = [(0.0, None)] * len(start)
    return minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x


# One target of a joint estimator: its kernel machine, the weights of both parts, deviations.


@dataclass(frozen=True)
class JointTarget:
    """The parts that predict one target."""

    pool: Pool  # the weights of both parts
    machine: Any = None  # the kernel machine, such as a `KernelMachine`; None if there is none
    # calibrations of the deviations of numbers: of both parts and of each alone
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    thresholds: tuple[float, ...] = ()  # of the probabilities of several labels an object

    @classmethod
    def of(
        cls, target: Column, pool: Pool, machine: Any,
        moments: tuple[Moments | None, Moments | None], values: NDArray[Any],
    ) -> Self:  # fmt: skip
        """Return what predicts a target, with the deviations of numbers calibrated."""
        fitted = cls(pool, machine)
        if isinstance(target, LabelSets):
            scores = pool.scores(*(None if pair is None else pair[0] for pair in moments))
            return replace(fitted, thresholds=target.thresholds(scores, values))
        if not isinstance(target, Numbers):
            return fitted
        calibrations = {}
        for answer in fitted.answers:
            mean, variance = fitted.part(answer).pool.moments(*moments)
            unit = target.in_unit(mean), variance * target.scales[0] ** 2
            calibrations[answer] = calibrate(*unit, values)
        return replace(fitted, calibrations=calibrations)

    @property
    def answers(self) -> list[str]:
        """The names of what can predict: both parts, or one of them."""
        pool = self.pool
        is_known = {KERNEL: pool.kernel_loss is not None, NETWORK: pool.network_loss is not None}
        is_known[BOTH] = all(is_known.values())
        return [answer for answer, is_there in is_known.items() if is_there]

    def part(self, answer: str) -> Self:
        """Return one of the parts, or both."""
        if answer not in self.answers:
            raise ArgumentError("answer", answer, " or ".join(map(repr, self.answers)))
        alone = {KERNEL: self.pool.only_kernel, NETWORK: self.pool.only_network}
        if answer not in alone:
            return self
        kept = {name: fit for name, fit in self.calibrations.items() if name == answer}
        return replace(self, pool=alone[answer](), calibrations=kept)


NETWORK_ALONE = JointTarget(Pool(0.0, 1.0, 0.0, 1.0, None, 1.0))


@dataclass(frozen=True)
class _Saved:
    """One target in pool.json."""

    pool: Pool
    calibrations: dict[str, Calibration]
    thresholds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self.pool.check()


@dataclass(frozen=True)
class _SavedTargets:
    """pool.json."""

    targets: tuple[_Saved, ...]


def write_targets(run: RunFolder, targets: Sequence[JointTarget]) -> None:
    """Write what `read_targets` reads into a run folder."""
    described = [
        {"pool": asdict(target.pool), "calibrations": {
            answer: asdict(calibration) for answer, calibration in target.calibrations.items()
        }} | ({"thresholds": target.thresholds} if target.thresholds else {})
        for target in targets
    ]  # fmt: skip
    run.write_json(POOL_FILE, {"targets": described})


def read_targets(
    files: RunFiles, machines: Sequence[Any], are_numbers: Sequence[bool]
) -> tuple[JointTarget, ...]:
    """Return what `write_targets` wrote.

    Raises:
        DataError: The file is missing or damaged.
    """
    saved = files.read(POOL_FILE, _SavedTargets).targets

    def restored() -> tuple[JointTarget, ...]:
        if len(saved) != len(machines):
            raise ValueError(f"{len(saved)} weights for {len(machines)} targets")
        targets = []
        for stored, machine, is_number in zip(saved, machines, are_numbers, strict=True):
            if machine is None and stored.pool.kernel:
                raise ValueError(f"a weight of a kernel machine without {DESCRIPTION}")
            target = JointTarget(stored.pool, machine, stored.calibrations, stored.thresholds)
            if set(stored.calibrations) != (set(target.answers) if is_number else set()):
                raise ValueError(f"calibrations of {', '.join(stored.calibrations) or 'nothing'}")
            targets.append(target)
        return tuple(targets)

    return files.parsed(POOL_FILE, restored)


# Fitting an estimator: its network, its kernel machines, and the weights of both.

CALIBRATION = "calibration"  # the name of a part, beside "train" and "valid"
LARGEST = 1e9  # of a score: the squares of larger ones, in the unit of a target, fit in no file
LabeledObjects = tuple[Sequence[Any], NDArray[Any]]


def no_settings(config: TrainerConfig) -> dict[str, Any]:
    """Return what determines a run besides the trainer's configuration: nothing."""
    return {}


def fit_parts(
    estimator: SupervisedEstimator, run: RunFolder, network: nn.Module | None,
    parts: Mapping[str, LabeledObjects], seed: int, *,
    groups: Mapping[str, NDArray[Any]] = MappingProxyType({}),
    sample_weights: Mapping[str, NDArray[np.float64]] = MappingProxyType({}),
    encoded: Mapping[str, Sequence[Any]] | None = None,
    settings: Callable[[TrainerConfig], dict[str, Any]] = no_settings,
    reading: dict[str, Any] | None = None,
) -> TrainingResult | None:  # fmt: skip
    """Train the network, if there is one, and fit kernel machines, weights and calibration.

    ``parts`` has the objects and encoded targets of ``"train"`` and ``"valid"``, and of
    ``"calibration"`` with conformal prediction; groups and weights are those of the objects of each
    part, if there are any. Without a network, a kernel machine alone predicts. ``encoded`` are
    objects as inputs of the network, if they are known already; ``settings`` determine a run that
    is resumed, beside the trainer's configuration.
    """
    estimator.examples_ = {name: len(values) for name, (_, values) in parts.items()}
    estimator.conformal_ = None
    weights = {
        name: example_weights(
            estimator.target_, parts[name][1], estimator.class_weight, sample_weights.get(name)
        )
        for name in ("train", "valid")
    }
    with limited(estimator.n_jobs):
        encode, examples = estimator.inputs_.encode, []
        for name in ("train", "valid") if network is not None else ():
            objects, values = parts[name]
            codes = encoded[name] if encoded else encode(objects) if len(objects) else []
            examples.append(Examples(codes, values, weights[name]))
        result = train(estimator, run, network, examples, seed, settings, reading)
        estimator.targets_ = ()
        of_train = [] if weights["train"] is None else [weights["train"]]
        objects, values, *of_train = sampled(*parts["train"], *of_train)
        weights["train"] = of_train[0] if of_train else None
        estimator.targets_ = fit_targets(
            estimator, (objects, values), parts["valid"], groups, weights
        )
        if CALIBRATION in parts and estimator.conformal is not None:
            objects, values = sampled(*parts[CALIBRATION])
            scores = estimator.conformal_scores(objects, values)
            of_rows = groups.get(CALIBRATION)
            estimator.conformal_ = calibrated(estimator, scores, values, of_rows)
    if run.is_saved:
        estimator.save_fitted(run)
    return result


def train(
    estimator: Estimator, run: RunFolder, network: nn.Module | None, examples: Sequence[Any],
    seed: int, settings: Callable[[TrainerConfig], dict[str, Any]] = no_settings,
    reading: dict[str, Any] | None = None,
) -> TrainingResult | None:  # fmt: skip
    """Train a network and keep its best weights; a new run gets its description first."""
    estimator.reading_ = reading or {}
    if network is None:
        estimator.network_, estimator.history_ = None, []
        if run.is_saved:
            estimator.write_description(run, None)
            run.write_text(METRICS_JSONL, as_jsonl([]))
        return None
    task, config, optimizer = estimator.training_plan(examples[0], examples[1], network, seed)
    if run.is_saved and not checkpoint.steps(run.checkpoints):
        estimator.write_description(run, network)
    with limited(estimator.n_jobs), generators.preserved():
        trainer = Trainer(
            network, task, config, run, optimizer=optimizer, settings=settings(config),
            callbacks=tuple(estimator.callbacks or ()), keeps_diverged=estimator.answer == BOTH,
        )  # fmt: skip
        result = trainer.fit()
        trainer.restore_best()
    estimator.network_ = network.eval()
    estimator.history_, estimator.network_seconds_ = result.rows, result.seconds
    return result


def fit_targets(
    estimator: SupervisedEstimator, train: LabeledObjects, valid: LabeledObjects,
    groups: Mapping[str, NDArray[Any]], weights: Mapping[str, NDArray[np.float64] | None],
) -> tuple[JointTarget, ...]:  # fmt: skip
    """Return the kernel machine and the weights of both parts, of each target by itself.

    The machine is fitted to the training part, the weights on the validation part, and then the
    machine again to both parts. Its kernel and C are chosen on the validation part or, if that is
    small or the training part has groups, by cross-validation. Without a validation part, the
    weights are those of `Pool.unvalidated`. A process alone needs none: each row is left out once.
    """
    count = len(train[1]) + len(valid[1])
    if not estimator.has_network and not groups and estimator.leaves_one_out(count):
        pairs = [w for w in (weights["train"], weights["valid"]) if w is not None]
        joined = np.concatenate([train[1], valid[1]])
        train, valid = ([*train[0], *valid[0]], joined), ([], valid[1][:0])
        weights = {"train": np.concatenate(pairs) if pairs else None, "valid": None}
    if estimator.answer != NETWORK:
        train, valid = (
            (estimator.remembered(objects), values) for objects, values in (train, valid)
        )
    network: dict[bool, list[Moments]] = {}  # by whether objects are held out
    targets = []
    for k, column in enumerate(columns_of(estimator.target_)):
        rows, held_out = (known_values(estimator.target_, half[1], k) for half in (train, valid))
        is_held_out = len(held_out[1]) > 0
        objects, (places, values) = (valid[0], held_out) if is_held_out else (train[0], rows)
        of_rows = [
            None if w is None else w[chosen, k : k + 1]
            for w, (chosen, _) in ((weights["train"], rows), (weights["valid"], held_out))
        ]
        machine = kernel = beside = None
        if estimator.answer != NETWORK:
            parts = [([data[0][row] for row in chosen], truth)
                     for data, (chosen, truth) in ((train, rows), (valid, held_out))]  # fmt: skip
            of_part = groups["train"][rows[0]] if "train" in groups else None
            fit = partial(_fit_machine, estimator, column, parts[0], parts[1], of_part, of_rows)
            machine, kernel = attempted(estimator.answer, "kernel machine", fit)
        if estimator.has_network:
            if is_held_out not in network:
                encoded = estimator.inputs_.encode(objects)
                network[is_held_out] = network_moments(estimator, encoded)
            mean, variance = network[is_held_out][k]
            fitted = None, (mean[places], variance[places])
            _, beside = attempted(estimator.answer, NETWORK, lambda fitted=fitted: fitted)
        scores = kernel and kernel[0], beside and beside[0]
        of_part = of_rows[int(is_held_out)]
        weighed = column if of_part is None else Weighted(column, of_part)
        if is_held_out:
            of_valid = len(set(groups["valid"][places])) if "valid" in groups else None
            is_few = isinstance(column, Classes) and len(values) < estimator.few
            if is_few and scores[0] is not None and scores[1] is not None:
                pool = Pool.cautious(weighed, scores[0], scores[1], values)
            else:
                pool = Pool.fit(weighed, *scores, values, of_valid)
            pool = pool.trusted(weighed, *scores, values, of_valid) if of_valid else pool
        else:
            pool = Pool.unvalidated(weighed, *scores, values)
        targets.append(JointTarget.of(column, pool, machine, (kernel, beside), values))
    return tuple(targets)


def attempted(
    answer: str, half: str, fit: Callable[[], tuple[Any, Moments]]
) -> tuple[Any, Moments | None]:
    """Return what one half fits and its moments; None of a half that fails beside another one."""
    try:
        machine, moments = fit()
        if (np.abs(moments[0]) < LARGEST).all() and (moments[1] < LARGEST**2).all():
            return machine, moments
        problem = f"its scores are not finite, or above {LARGEST:g}"
    except RepresenterError:
        raise
    except (ArithmeticError, MemoryError, RuntimeError, ValueError) as error:
        problem = str(error) or type(error).__name__
    if answer != BOTH:
        raise TrainingError(f"The {half} failed: {problem}. Train with --answer {BOTH}.")
    say(f"the {half} failed and predicts nothing; the other half is left: {problem}")
    return None, None


def network_moments(estimator: SupervisedEstimator, encoded: Sequence[Any]) -> list[Moments]:
    """Return the mean and the variance of the members' scores of each target ``(N, W)``."""
    outputs = outputs_of(estimator.network_, estimator.inputs_, encoded)
    members = outputs if outputs.ndim == 3 else outputs[None]
    ends = np.cumsum([column.width for column in columns_of(estimator.target_)])[:-1]
    parts = (np.split(moment, ends, axis=1) for moment in (members.mean(0), members.var(0)))
    return list(zip(*parts, strict=True))


def _fit_machine(
    estimator: SupervisedEstimator, target: Column, train: LabeledObjects, valid: LabeledObjects,
    groups: Any, weights: Sequence[NDArray[np.float64] | None],
) -> tuple[KernelMachine, Moments]:  # fmt: skip
    """Return a kernel machine, and moments of objects held out; see `fit_machine`."""
    started = time.perf_counter()
    if not len(train[1]):
        train, groups, weights = valid, None, (weights[1], weights[1])
    digests: Any = ()
    if groups is not None or len(valid[1]) < ENOUGH:  # which are cross-validated
        digests = estimator.digests(train[0])
        has_copies = len(np.unique(digests)) < len(digests)
        groups = digests if groups is None and has_copies else groups
    every = [w for w in weights if w is not None]
    objects = estimator.kernel_objects([*train[0], *valid[0]])
    candidates, values = estimator.kernel_candidates(objects), np.concatenate([train[1], valid[1]])
    if estimator.verbose:
        announce(candidates, target, objects, values)
    machine, moments = fit_machine(
        candidates, target, objects, values, len(train[1]), groups, estimator.penalties,
        is_supervised=not estimator.is_kernel_unsupervised,
        weights=np.concatenate(every) if every else None, digests=digests,
    )  # fmt: skip
    held_out, of_rows = (valid[1], weights[1]) if len(valid[1]) else (train[1], weights[0])
    if isinstance(target, Classes) and not has_many(target):  # theirs is a table of many gigabytes
        of_rows = None if of_rows is None else of_rows[:, 0]
        machine, moments = answered(machine, moments, held_out, of_rows)
    learn = getattr(estimator, "learn_subjects", None)
    if learn is not None:
        learn(machine, objects, moments[0], held_out)
    machine.seconds = time.perf_counter() - started
    return machine, moments
