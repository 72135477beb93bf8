"""The task ``language``: a language model of a running text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from representer.estimators.parameters import LanguageParameters
from representer.tasks.options import (
    READ,
    RunConfig,
    Task,
    config_of,
    defaults,
    functions_in,
    option,
)


@dataclass(frozen=True)
class CorpusOptions:
    """Options of the corpus, and defaults that do not depend on its size.

    Losses are means over the tokens of a segment. If a recipe sums them over ``unroll`` steps,
    multiply its learning rate and divide its gradient norm by ``unroll``. The learning rate of a
    segment is scaled by its length relative to ``unroll``.
    """

    data: str | None = option(
        None, "text file, also .xz, .gz or .bz2; or a folder with train, valid and test files"
    )
    batch_size: int = option(32, "parallel streams")
    epochs: int = option(10, "passes over the training text")
    patience: int = option(5, "stop after this many epochs without improvement; 0: never")
    preset: str | None = option(
        None,
        "settings of a paper's model; other options override it",
        choices=("string-5m", "string-20m", "awd"),
    )
    warm_start: str | None = option(
        None, "run whose best weights and tokens training starts from", metavar="RUN"
    )
    demo: bool = option(False, "no DATA: the help topics of Python")


@dataclass(frozen=True)
class LanguageReading:
    """Options of reading lines to predict after: none, since the run names the encoding."""


LanguageConfig: type[Any] = config_of(
    "LanguageConfig", __name__, CorpusOptions, LanguageParameters, base=RunConfig,
    without=("monitor",),
)  # fmt: skip

# L17 section 6.1, completed by its code: learning rate 1 and norm 5 for a loss summed over 35 steps
# and averaged over the batch.
_STRING: dict[str, Any] = {
    "answer": "network", "cell": "string-kernel", "order": 1, "decay": "state", "num_layers": 3,
    "optimizer": "sgd", "lr": 35.0, "clip_norm": 5 / 35, "batch_size": 32, "unroll": 35,
    "epochs": 100, "patience": 20, "evaluation_rows": 1, "initial": "string", "min_count": 1,
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "string-5m": _STRING
    | {"hidden_size": 355, "input_dropout": 0.5, "output_dropout": 0.5, "rnn_dropout": 0.0}
    | {"lr_decay": 0.9, "lr_decay_from": 20},
    "string-20m": _STRING
    | {"hidden_size": 950, "input_dropout": 0.7, "output_dropout": 0.7, "rnn_dropout": 0.1}
    | {"lr_decay": 0.95, "lr_decay_from": 30},
    # The official AWD-LSTM, with what its page names for the Penn Treebank.
    "awd": {
        "answer": "network", "cell": "lstm", "embedding_size": 400, "hidden_size": 1150,
        "num_layers": 3, "locked": True, "input_dropout": 0.4, "layer_dropout": 0.25,
        "output_dropout": 0.4, "embedding_dropout": 0.1, "weight_dropout": 0.5,
        "activation_penalty": 2.0, "slowness_penalty": 1.0, "initial": "uniform", "batch_size": 20,
        "unroll": 70, "variable_unroll": True, "epochs": 500, "optimizer": "nt-asgd", "lr": 30.0,
        "weight_decay": 1.2e-6, "clip_norm": 0.25, "patience": 0, "evaluation_rows": 10,
    },
}  # fmt: skip

# Sizes with which a model trains in about a minute on one core.
DEMO: dict[str, Any] = {
    "hidden_size": 128, "min_count": 2, "epochs": 6, "lr": 4e-3, "threads": 1, "batch_size": 16,
}  # fmt: skip


def defaults_of(given: Any) -> dict[str, Any]:
    """Return the defaults of all options, given those of the command line."""
    usual = defaults(LanguageConfig, DEMO if given.demo else {})
    return usual | PRESETS.get(given.preset or "", {})


LANGUAGE = Task(
    name="language", summary="Train a language model on a running text.", noun="running text",
    config=LanguageConfig, defaults=defaults_of,
    options=dict.fromkeys(READ, (LanguageReading,)) | {"generate": ()},
    functions=functions_in("representer.tasks.language", without=("drift",), beside=("generate",)),
    packages=("accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2"),
    takes_strings=True,
)  # fmt: skip
