"""The task ``language``: a language model of a running text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from representer.checks import (
    require,
    require_choices,
    require_fractions,
    require_integers,
    require_numbers,
)
from representer.options.task import (
    ANSWERS,
    AUTO,
    READ,
    RunConfig,
    Task,
    TrainingParameters,
    config_of,
    defaults,
    functions_in,
    option,
    require_decay,
)

LEVELS = ("word", "char")
COMBINES = ("multiply", "add")
OPTIMIZERS = ("adam", "sgd", "nt-asgd", "asgd")
EMBEDDING_INITIALS = ("string", "uniform")
DROPOUTS = (
    "input_dropout", "layer_dropout", "output_dropout", "embedding_dropout", "rnn_dropout",
    "weight_dropout",
)  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class LanguageParameters(TrainingParameters):
    """Parameters of the language model, of its tokens and of its training."""

    answer: str = option(
        "both", "predict with n-gram counts (kernel), the network, or both", choices=ANSWERS
    )
    cuda_graph: bool = option(True, "replay training steps from CUDA graphs, on one CUDA device")
    level: str = option("word", "unit of prediction: words or characters", choices=LEVELS)
    encoding: str = option("utf-8", "encoding of files")
    min_count: int = option(1, "tokens rarer than this in the training text are unknown")
    max_vocabulary: int = option(0, "maximum size of the vocabulary; 0: no limit")
    cell: str = option("string-kernel", "recurrent cell; `representer cells` lists them")
    order: int = option(1, "length of the n-grams of a string kernel, which may have gaps")
    combine: str = option(
        "multiply", "combination of the words of a string kernel", choices=COMBINES
    )
    decay: float | str = option(
        "state",
        "decay of a string kernel: a number in [0, 1], learned, input or state",
        metavar="NAME",
    )
    highway: bool = option(True, "highway connections in string-kernel layers")
    filter_length: int = option(1, "filter length of the other cells in words")
    layer_norm: bool = option(False, "normalize the memory cell of the other cells")
    hidden_size: int = option(256, "units of all layers but the last")
    embedding_size: int = option(
        0, "size of the embeddings and of the last layer; 0: as hidden-size"
    )
    num_layers: int = option(2, "number of layers")
    cutoffs: Sequence[int] = option(
        (), "adaptive softmax: first tokens of the clusters", metavar="LIST"
    )
    input_dropout: float = option(0.3, "dropout on the embeddings")
    layer_dropout: float = option(0.0, "dropout between layers")
    output_dropout: float = option(0.3, "dropout on the last layer's output")
    locked: bool = option(False, "use one mask for all steps of a segment in these three")
    embedding_dropout: float = option(0.0, "dropout of whole words in a segment")
    rnn_dropout: float = option(0.0, "dropout in string-kernel layers, one mask for all steps")
    weight_dropout: float = option(0.0, "dropout of entries of recurrent matrices (DropConnect)")
    initial: str = option("string", "initialization of the embeddings", choices=EMBEDDING_INITIALS)
    activation_penalty: float = option(0.0, "weight of the mean square of the output (AR)")
    slowness_penalty: float = option(0.0, "weight of the mean square of its change (TAR)")
    batch_size: int | None = option(None, "parallel streams (default: by the number of tokens)")
    unroll: int = option(35, "steps of a segment")
    variable_unroll: bool = option(False, "draw the length of each segment at random around unroll")
    optimizer: str = option(
        "adam",
        "optimizer; nt-asgd averages weights once validation stops improving, asgd from the start, "
        "and stops by the same criterion",
        choices=OPTIMIZERS,
    )
    lr: float = option(2e-3, "learning rate")
    lr_decay: float = option(1.0, "factor of the learning rate per epoch, from epoch lr-decay-from")
    lr_decay_from: int = option(1, "first epoch with such a change")
    clip_norm: float = option(0.25, "clip the norm of the gradient; 0: no clipping")
    evaluation_rows: int = option(10, "parallel streams in validation; the test has one")

    def check(self) -> None:
        super().check()
        require_integers(
            self, 1, "min_count", "order", "filter_length", "hidden_size", "num_layers", "unroll",
            "lr_decay_from", "evaluation_rows",
        )  # fmt: skip
        require_integers(self, 0, "max_vocabulary", "embedding_size")
        require(self, "encoding", isinstance(self.encoding, str), "the name of an encoding")
        are_integers = all(type(token) is int for token in self.cutoffs)
        require(self, "cutoffs", are_integers, "a sequence of integers")
        require(self, "max_vocabulary", self.max_vocabulary not in (1, 2), "3 or more, or 0")
        require_numbers(self, "activation_penalty", "slowness_penalty")
        require(self, "lr_decay", 0 < self.lr_decay < math.inf, "a positive number")
        require_fractions(self, *DROPOUTS)
        require_choices(
            self, answer=ANSWERS, level=LEVELS, combine=COMBINES, optimizer=OPTIMIZERS,
            initial=EMBEDDING_INITIALS, monitor=(AUTO, "loss"),
        )  # fmt: skip
        require_decay(self)


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


TASK = Task(
    name="language", summary="Train a language model on a running text.", noun="running text",
    config=LanguageConfig, defaults=defaults_of,
    options=dict.fromkeys(READ, (LanguageReading,)) | {"generate": ()},
    estimators=("representer.estimators.language:LanguageModel",),
    functions=functions_in("representer.tasks.language", without=("drift",), beside=("generate",)),
    packages=("accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2"),
    takes_strings=True,
)  # fmt: skip
