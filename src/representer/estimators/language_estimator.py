"""Fitting, saving and loading of a language model; `LanguageModel` is what users call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

from representer import models
from representer.data.language import LanguageVocabulary, Level, fixed_segments
from representer.errors import ArgumentError
from representer.estimators import saving
from representer.estimators.base import Estimator
from representer.estimators.classes import Classes
from representer.estimators.explanation import NETWORK
from representer.estimators.fitting import start_from
from representer.estimators.joint_fitting import attempted, no_settings, train
from representer.estimators.joint_target import NETWORK_ALONE, JointTarget
from representer.estimators.language_inputs import LanguageInputs
from representer.estimators.language_kernel import LanguageKernel
from representer.estimators.language_parameters import LanguageParameters
from representer.estimators.language_predictors import (
    SEGMENT,
    JointPredictor,
    NetworkPredictor,
    Predictor,
)
from representer.estimators.language_training import (
    network_config,
    optimizer_for,
    trainer_config,
    training_task,
)
from representer.estimators.pool import Moments, Pool
from representer.models import LanguageModelConfig
from representer.storage.fields import from_values
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder
from representer.training import generators
from representer.training.trainer_config import TrainerConfig
from representer.training.training_result import TrainingResult
from representer.training.training_task import TrainingTask

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
VOCABULARY = "vocabulary.json"
POOLED = 2**22  # log-probabilities of each half that determine the weights


@dataclass(frozen=True)
class _SavedInputs:
    """The inputs in model.json; the vocabulary has a file of its own."""

    level: Level


class LanguageEstimator(LanguageParameters, Estimator):
    """The base of `LanguageModel`."""

    _task: ClassVar[str] = "language"
    _config: ClassVar[type[LanguageModelConfig]] = LanguageModelConfig
    _input_tags: ClassVar[tuple[str, ...]] = ("string",)
    _make = staticmethod(models.LanguageModel)
    inputs_: LanguageInputs
    network_: Any

    @property
    def target_(self) -> Classes:
        """The tokens as classes."""
        return Classes(self.inputs_.vocabulary.words)

    def learn_inputs(self, counts: Counter[str]) -> LanguageInputs:
        """Return the inputs for a training text with these tokens, or those of `warm_start`.

        Raises:
            DataError: No token is frequent enough, or the run cannot be used.
            ArgumentError: The run that training starts from has tokens of another level.
        """
        level: Level = self.level  # type: ignore[assignment]
        if self.warm_start is None:
            return LanguageInputs.from_counts(counts, level, self.min_count, self.max_vocabulary)
        inputs: LanguageInputs = saving.load_inputs(self.warm_start, type(self))
        if inputs.level != level:
            raise ArgumentError("level", level, f"{inputs.level!r}, as in {self.warm_start}")
        return inputs

    def new_network(self, seed: int, *, is_resumed: bool = False) -> models.LanguageModel:
        """Return the network with its initial weights: random, or those of `warm_start`.

        Args:
            seed: The seed of random weights.
            is_resumed: The weights come from a checkpoint; `warm_start` may be gone.
        """
        with generators.initializing(seed):
            network = models.LanguageModel(network_config(self, len(self.inputs_.vocabulary)))
        if not is_resumed:
            start = type(self).load(str(self.warm_start)) if self.warm_start else None
            start_from(start, network, str(self.warm_start))
        return network

    def train_on(
        self,
        run: RunFolder,
        network: models.LanguageModel | None,
        text: Tensor,
        valid: Tensor,
        seed: int,
        *,
        settings: Callable[[TrainerConfig], dict[str, Any]] = no_settings,
    ) -> TrainingResult | None:
        """Train a network in a run folder, from its newest checkpoint, and fit the kernel half.

        Returns:
            The result of the network's training.
        """
        self.examples_ = {"train": len(text), "valid": len(valid)}
        result = train(self, run, network, (text, valid), seed, settings)
        self._join(text.numpy(), valid.numpy())
        if run.is_saved:
            self._save_fitted(run)
        return result

    def _plan(
        self, train: Tensor, valid: Tensor, network: Any, seed: int
    ) -> tuple[TrainingTask, TrainerConfig, Optimizer | None]:
        task = training_task(self, train, valid, network, seed)
        return task, trainer_config(self, len(train), seed), optimizer_for(self, network)

    def _join(self, train: Numbers, valid: Numbers) -> None:
        """Fit the kernel half and the weights of both halves.

        The counts are those of the training text while the weights are found on the validation
        text, and then those of both.
        """
        self.targets_ = (NETWORK_ALONE,)
        if self.answer == NETWORK:
            return
        size, level = len(self.inputs_.vocabulary), self.inputs_.level
        following: list[Numbers] = []

        def scored(find: Callable[[], Any]) -> tuple[Any, Moments]:
            logs, tokens = _at_some_places(half := find(), torch.from_numpy(valid), size)
            following.append(tokens)
            return half, (logs, logs[:0])

        select = partial(LanguageKernel.select, level, size, train, valid)
        machine, logs = attempted(self.answer, "kernel", partial(scored, select))
        network = None
        if self.has_network:
            find = partial(NetworkPredictor, self.network_)
            _, network = attempted(self.answer, NETWORK, partial(scored, find))
        tokens = following[0] if following else valid[:0]
        pool = Pool.fit(self.target_, logs and logs[0], network and network[0], tokens)
        machine = machine and machine.refit(np.concatenate([train, valid]))
        self.targets_ = (JointTarget(pool, machine),)

    @property
    def predictor_(self) -> JointPredictor:
        """Both halves with their weights."""
        network = None if self.network_ is None else NetworkPredictor(self.network_)
        return JointPredictor(self.machine_, network, self.pool_)

    @property
    def _network_name(self) -> str:
        return self.cell

    def _require_sizes(self, config: LanguageModelConfig) -> None:
        if (n := len(self.inputs_.vocabulary)) != config.vocabulary_size:
            raise ValueError(f"it has {n:,} tokens; the model has {config.vocabulary_size:,}")

    def _save_inputs(self, run: RunFolder) -> dict[str, Any]:
        run.write_text(VOCABULARY, self.inputs_.vocabulary.to_json() + "\n")
        return {"level": self.inputs_.level}

    def _load_inputs(self, files: RunFiles, values: Any) -> LanguageInputs:
        saved = from_values(_SavedInputs, values)
        path = files.folder / VOCABULARY
        vocabulary = LanguageVocabulary.from_json(files.text(VOCABULARY), file=path)
        return LanguageInputs(vocabulary, saved.level)

    def _write_machines(self, run: RunFolder, machines: Sequence[LanguageKernel]) -> None:
        machines[0].write(run)

    def _read_machines(self, files: RunFiles) -> list[LanguageKernel]:
        size, level = len(self.inputs_.vocabulary), self.inputs_.level
        return [LanguageKernel.read_from(files, level, size)]


def _at_some_places(predictor: Predictor, text: Tensor, size: int) -> tuple[Floats, Numbers]:
    """Return log-probabilities at evenly spread places of a text, and the tokens there."""
    stride = min(SEGMENT, -(-len(text) * size // POOLED))
    logs, following, state = [], [], None
    for start, length in fixed_segments(len(text) - 1, SEGMENT):
        span = slice(start, start + length)
        some, state = predictor.read(text[span], state, slice(None, None, stride))
        logs.append(some)
        following.append(text[start + 1 : start + length + 1 : stride])
    return torch.cat(logs).numpy(), torch.cat(following).numpy()
