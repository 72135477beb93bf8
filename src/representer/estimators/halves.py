"""Fitting an estimator: its network, its kernel machines, and the weights of both."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from representer.data.stored import sampled
from representer.errors import RepresenterError, TrainingError, say
from representer.estimators import base, targets
from representer.estimators.conformal import calibrated
from representer.estimators.explanation import BOTH, NETWORK
from representer.estimators.fitting import Examples, outputs_of
from representer.estimators.joint_target import JointTarget
from representer.estimators.kernel_machine import ENOUGH, KernelMachine, fit_machine
from representer.estimators.pool import Moments, Pool
from representer.estimators.targets import Column, columns_of, example_weights, known_values
from representer.machine import limited
from representer.storage import checkpoint
from representer.storage.run import RunFolder
from representer.training import generators
from representer.training.config import METRICS_JSONL, TrainerConfig, as_jsonl
from representer.training.state import TrainingResult
from representer.training.trainer import Trainer

if TYPE_CHECKING:
    from representer.estimators.base import Estimator
    from representer.estimators.supervised import SupervisedEstimator

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
            own = encoded[name] if encoded else encode(objects) if len(objects) else []
            examples.append(Examples(own, values, weights[name]))
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
            base.describe(run, estimator, None)
            run.write_text(METRICS_JSONL, as_jsonl([]))
        return None
    task, config, optimizer = estimator.training_plan(examples[0], examples[1], network, seed)
    if run.is_saved and not checkpoint.steps(run.checkpoints):
        base.describe(run, estimator, network)
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
    if not estimator.has_network and not groups and estimator.leaves_one_out:
        pairs = [own for own in (weights["train"], weights["valid"]) if own is not None]
        joined = np.concatenate([train[1], valid[1]])
        train, valid = ([*train[0], *valid[0]], joined), ([], valid[1][:0])
        weights = {"train": np.concatenate(pairs) if pairs else None, "valid": None}
    if estimator.answer != NETWORK:
        train, valid = (
            (estimator.remembered(objects), values) for objects, values in (train, valid)
        )
    network: dict[bool, list[Moments]] = {}  # by whether objects are held out
    found = []
    for k, column in enumerate(columns_of(estimator.target_)):
        rows, held_out = (known_values(estimator.target_, part[1], k) for part in (train, valid))
        is_held_out = len(held_out[1]) > 0
        objects, (places, values) = (valid[0], held_out) if is_held_out else (train[0], rows)
        of_rows = [
            None if own is None else own[at, k : k + 1]
            for own, (at, _) in ((weights["train"], rows), (weights["valid"], held_out))
        ]
        machine = kernel = beside = None
        if estimator.answer != NETWORK:
            parts = [([own[0][row] for row in at], known)
                     for own, (at, known) in ((train, rows), (valid, held_out))]  # fmt: skip
            own = groups["train"][rows[0]] if "train" in groups else None
            fit = partial(_fit_machine, estimator, column, parts[0], parts[1], own, of_rows)
            machine, kernel = attempted(estimator.answer, "kernel machine", fit)
        if estimator.has_network:
            if is_held_out not in network:
                encoded = estimator.inputs_.encode(objects)
                network[is_held_out] = network_moments(estimator, encoded)
            mean, variance = network[is_held_out][k]
            fitted = None, (mean[places], variance[places])
            _, beside = attempted(estimator.answer, NETWORK, lambda fitted=fitted: fitted)
        scores = kernel and kernel[0], beside and beside[0]
        own = of_rows[int(is_held_out)]
        weighed = column if own is None else targets.Weighted(column, own)
        if is_held_out:
            of_valid = len(set(groups["valid"][places])) if "valid" in groups else None
            is_few = isinstance(column, targets.Classes) and len(values) < estimator.few
            if is_few and scores[0] is not None and scores[1] is not None:
                pool = Pool.cautious(weighed, scores[0], scores[1], values)
            else:
                pool = Pool.fit(weighed, *scores, values, of_valid)
        else:
            pool = Pool.unvalidated(weighed, *scores, values)
        found.append(JointTarget.of(column, pool, machine, (kernel, beside), values))
    return tuple(found)


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
    parts = (np.split(part, ends, axis=1) for part in (members.mean(0), members.var(0)))
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
    every = [own for own in weights if own is not None]
    objects = estimator.kernel_objects([*train[0], *valid[0]])
    machine, moments = fit_machine(
        estimator.kernel_candidates(objects), target, objects, np.concatenate([train[1], valid[1]]),
        len(train[1]), groups, estimator.penalties,
        is_supervised=not estimator.is_kernel_unsupervised,
        weights=np.concatenate(every) if every else None, digests=digests,
    )  # fmt: skip
    learn = getattr(estimator, "learn_subjects", None)
    if learn is not None:
        learn(machine, objects, moments[0], valid[1] if len(valid[1]) else train[1])
    machine.seconds = time.perf_counter() - started
    return machine, moments
