"""Parameters of `LanguageModel`. Free of torch, see `parameters`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from representer.estimators.parameters import (
    ANSWERS,
    AUTO,
    TrainingParameters,
    option,
    require_decay,
)
from representer.requirements import (
    require,
    require_choices,
    require_fractions,
    require_integers,
    require_numbers,
)

LEVELS = ("word", "char")
COMBINES = ("multiply", "add")
OPTIMIZERS = ("adam", "sgd", "nt-asgd", "asgd")
INITIALS = ("string", "uniform")
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
    initial: str = option("string", "initialization of the embeddings", choices=INITIALS)
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
        """Check every value, see `TrainingParameters.check`."""
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
            initial=INITIALS, monitor=(AUTO, "loss"),
        )  # fmt: skip
        require_decay(self)
