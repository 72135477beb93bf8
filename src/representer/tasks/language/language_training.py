"""The language model of a run, and how it is trained."""

from __future__ import annotations

from dataclasses import fields

import torch
from torch import nn

from representer.estimators import language_training
from representer.estimators.language_parameters import LanguageParameters
from representer.models import LanguageModel, LanguageModelConfig
from representer.tasks.language.language_config import LanguageConfig
from representer.tasks.language.language_data import LanguageData
from representer.training import generators
from representer.training.trainer_config import TrainerConfig
from representer.training.training_task import TrainingTask


def parameters_of(config: LanguageConfig) -> LanguageParameters:
    """Return the parameters of the estimator that a configuration describes."""
    shared = {field.name for field in fields(LanguageParameters)} & set(config.to_dict())
    chosen = {name: getattr(config, name) for name in shared}
    return LanguageParameters(
        **{**chosen, "cutoffs": config.borders}, n_jobs=config.threads or None
    )


def model_config(config: LanguageConfig, vocabulary_size: int) -> LanguageModelConfig:
    """Return the configuration of the model of a run."""
    return language_training.network_config(parameters_of(config), vocabulary_size)


def build_model(config: LanguageConfig, vocabulary_size: int) -> LanguageModel:
    """Return the model with initial weights, which depend only on the seed."""
    with generators.initializing(config.seed):
        return LanguageModel(model_config(config, vocabulary_size))


def trainer_config(config: LanguageConfig) -> TrainerConfig:
    """Return the configuration of the trainer."""
    return language_training.trainer_config(parameters_of(config), 0, config.seed)


def optimizer_for(config: LanguageConfig, model: nn.Module) -> torch.optim.Optimizer | None:
    """Return the optimizer of a run; None for the trainer's own Adam."""
    return language_training.optimizer_for(parameters_of(config), model)


def training_task(config: LanguageConfig, data: LanguageData, model: LanguageModel) -> TrainingTask:
    """Return segments, loss and validation for the trainer."""
    corpus, parameters = data.corpus, parameters_of(config)
    return language_training.training_task(
        parameters, corpus.train, corpus.valid, model, config.seed
    )
