"""Options and presets of ``fit language``.

Does not import torch: the command line reads its options here.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from representer.errors import ArgumentError
from representer.tasks.options import is_share, option

LEVELS = ("word", "char")
DECAYS = ("learned", "input", "state")
COMBINES = ("multiply", "add")
OPTIMIZERS = ("adam", "sgd", "nt-asgd", "asgd")
INITIALS = ("string", "uniform")


@dataclass(frozen=True)
class LanguageConfig:
    """One run of ``fit language``. Each field is an option of the command and a key of config.yaml.

    Losses are means over the tokens of a segment. If a recipe sums them over ``unroll`` steps,
    multiply its learning rate and divide its gradient norm by ``unroll``. The learning rate of a
    segment is scaled by its length relative to ``unroll``.

    Raises:
        ArgumentError: If a value is out of its range, or two options exclude each other.
    """

    data: str | None = option(
        None, "text file, also .xz, .gz or .bz2; or a folder with train, valid and test files"
    )
    out: str | None = option(None, "run folder (default: runs/NAME-OF-DATA)", metavar="RUN")
    level: str = option("word", "unit of prediction: words or characters", choices=LEVELS)
    encoding: str = option("utf-8", "encoding of the files")
    valid: str | None = option(None, "validation file, instead of a part of DATA", metavar="FILE")
    valid_fraction: float = option(
        0.1, "fraction of the lines of DATA used for validation, before the test lines"
    )
    test: str | None = option(None, "test file, instead of a part of DATA", metavar="FILE")
    test_fraction: float = option(
        0.1, "fraction of the lines of DATA used for testing, the last ones"
    )
    min_count: int = option(1, "tokens rarer than this in the training text are unknown")
    max_vocabulary: int = option(0, "maximum size of the vocabulary; 0: no limit")
    cell: str = option("string-kernel", "recurrent cell; `representer cells` lists them")
    order: int = option(1, "length of the n-grams of a string kernel, which may have gaps")
    combine: str = option(
        "multiply", "combination of the words of a string kernel", choices=COMBINES
    )
    decay: str = option(
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
    cutoffs: str = option("", "adaptive softmax: first tokens of the clusters", metavar="LIST")
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
    batch_size: int = option(32, "parallel streams")
    unroll: int = option(35, "steps of a segment")
    variable_unroll: bool = option(False, "draw the length of each segment at random around unroll")
    epochs: int = option(10, "passes over the training text")
    max_steps: int = option(0, "maximum number of steps; 0: no limit")
    optimizer: str = option(
        "adam",
        "optimizer; nt-asgd averages weights once validation stops improving, asgd from the start, "
        "and stops by the same criterion",
        choices=OPTIMIZERS,
    )
    lr: float = option(2e-3, "learning rate")
    lr_decay: float = option(1.0, "factor of the learning rate per epoch, from epoch lr-decay-from")
    lr_decay_from: int = option(1, "first epoch with such a change")
    weight_decay: float = option(0.0, "L2 penalty")
    clip_norm: float = option(0.25, "clip the norm of the gradient; 0: no clipping")
    patience: int = option(5, "stop after this many epochs without improvement; 0: never")
    evaluation_rows: int = option(10, "parallel streams in validation; the test has one")
    baselines: bool = option(True, "count n-grams to compare with")
    seed: int = option(0, "random seed of weights, segments and dropout")
    threads: int = option(0, "CPU threads; 0: default of torch")
    preset: str | None = option(
        None,
        "settings of a paper's model; other options override it",
        choices=("string-5m", "string-20m", "awd"),
    )
    start_from: str | None = option(
        None, "run whose best weights are the initial weights, for fine-tuning", metavar="RUN"
    )
    resume: bool = option(False, "continue from the newest checkpoint of the run folder")
    demo: bool = option(False, "no DATA: the help topics of Python")

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            self._require(name, getattr(self, name) >= 1, "a positive integer")
        for name in _NOT_NEGATIVE:
            self._require(name, getattr(self, name) >= 0, "0 or more")
        for name in _SHARES:
            self._require(name, 0 <= getattr(self, name) < 1, "a number in [0, 1)")
        for name in ("valid_fraction", "test_fraction"):
            self._require(name, 0 < getattr(self, name) < 1, "a number between 0 and 1")
        for name in ("lr", "lr_decay"):
            self._require(name, 0 < getattr(self, name) < math.inf, "a positive number")
        for name, known in _CHOICES.items():
            self._require(name, getattr(self, name) in known, "one of " + ", ".join(known))
        for name in ("data", "valid", "test"):
            is_fine = not self.demo or getattr(self, name) is None
            self._require(name, is_fine, "no file with --demo, which has its own data")
        is_decay = self.decay in DECAYS or is_share(self.decay)
        self._require("decay", is_decay, "a number in [0, 1], learned, input or state")
        is_limit = self.max_vocabulary == 0 or self.max_vocabulary > 2
        self._require("max_vocabulary", is_limit, "3 or more, or 0")
        words = self.cutoffs.split(",") if self.cutoffs else ()
        is_list = self.cutoffs.isascii() and all(word.strip().isdecimal() for word in words)
        self._require("cutoffs", is_list, "integers separated by commas, as in 2000,10000")

    @property
    def borders(self) -> tuple[int, ...]:
        """The cutoffs as numbers."""
        return tuple(int(word) for word in self.cutoffs.split(",")) if self.cutoffs else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, as in config.yaml."""
        return asdict(self)

    def _require(self, name: str, is_fine: bool, expected: str) -> None:
        if not is_fine:
            raise ArgumentError(name, getattr(self, name), expected)


_POSITIVE = (
    "hidden_size", "order", "filter_length", "num_layers", "min_count", "epochs", "batch_size",
    "unroll", "lr_decay_from", "evaluation_rows",
)  # fmt: skip
_NOT_NEGATIVE = (
    "embedding_size", "max_vocabulary", "patience", "threads", "seed", "max_steps", "clip_norm",
    "weight_decay", "activation_penalty", "slowness_penalty",
)  # fmt: skip
_SHARES = (
    "input_dropout", "layer_dropout", "output_dropout", "embedding_dropout", "rnn_dropout",
    "weight_dropout",
)  # fmt: skip
_CHOICES = {"level": LEVELS, "combine": COMBINES, "optimizer": OPTIMIZERS, "initial": INITIALS}

# L17 section 6.1, completed by its code: learning rate 1 and norm 5 for a loss summed over 35 steps
# and averaged over the batch.
_STRING: dict[str, Any] = {
    "cell": "string-kernel", "order": 1, "decay": "state", "num_layers": 3, "optimizer": "sgd",
    "lr": 35.0, "clip_norm": 5 / 35, "batch_size": 32, "unroll": 35, "epochs": 100, "patience": 20,
    "evaluation_rows": 1, "initial": "string", "min_count": 1,
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
        "cell": "lstm", "embedding_size": 400, "hidden_size": 1150, "num_layers": 3, "locked": True,
        "input_dropout": 0.4, "layer_dropout": 0.25, "output_dropout": 0.4,
        "embedding_dropout": 0.1, "weight_dropout": 0.5, "activation_penalty": 2.0,
        "slowness_penalty": 1.0, "initial": "uniform", "batch_size": 20, "unroll": 70,
        "variable_unroll": True, "epochs": 500, "optimizer": "nt-asgd", "lr": 30.0,
        "weight_decay": 1.2e-6, "clip_norm": 0.25, "patience": 0, "evaluation_rows": 10,
    },
}  # fmt: skip

# Sizes with which a model trains in about a minute on one core.
DEMO: dict[str, Any] = {
    "hidden_size": 128, "min_count": 2, "epochs": 6, "lr": 4e-3, "threads": 1, "batch_size": 16,
}  # fmt: skip


def defaults(preset: str | None, *, demo: bool) -> dict[str, Any]:
    """Return the default values of all options."""
    chosen = {field.name: field.default for field in fields(LanguageConfig)}
    return chosen | (DEMO if demo else {}) | PRESETS.get(preset or "", {})
