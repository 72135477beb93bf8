"""A language model and a text small enough for every test."""

from __future__ import annotations

import random
from typing import Any

import torch

from representer import estimators
from representer.models import LanguageModelConfig, LanguageNetwork
from representer.options.language import LanguageConfig
from representer.options.task import parameters_of
from representer.training import generators


def made_up_text(lines: int = 60, seed: int = 0) -> str:
    """Lines in which every word but the first follows from the one before."""
    rng, following = random.Random(seed), {"a": "bc", "b": "cd", "c": "da", "d": "ab"}
    text = []
    for _ in range(lines):
        words = [rng.choice("abcd")]
        while len(words) < 7:
            words.append(rng.choice(following[words[-1]]))
        text.append(" ".join(words))
    return "\n".join(text) + "\n"


def small_config(**changes: Any) -> Any:
    """A run of a second."""
    values: dict[str, Any] = {
        "hidden_size": 6, "batch_size": 4, "unroll": 7, "epochs": 2, "threads": 1, "lr": 0.02,
        "evaluation_rows": 2, "baselines": "none", "out": "run",
    }  # fmt: skip
    return LanguageConfig(**{**values, **changes})


def estimator_of(config: Any) -> estimators.LanguageModel:
    """The estimator that a run trains."""
    return estimators.LanguageModel(**parameters_of(config, estimators.LanguageModel))


def small_model(dtype: torch.dtype = torch.float64, **changes: Any) -> LanguageNetwork:
    """A model of 11 tokens."""
    values: dict[str, Any] = {"embedding_size": 6, "hidden_size": 6, "num_layers": 2}
    config = LanguageModelConfig(11, **{**values, **changes})
    with generators.initializing(3):
        return LanguageNetwork(config).to(dtype)
