"""What one can choose when fitting a language model, and the presets.

Free of torch, since the command line reads its options here.
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

    Losses are means over the tokens of a segment. A recipe that sums them over ``unroll`` steps has
    a learning rate and a largest norm that are ``unroll`` times as large and as small here; the
    rate of a segment of another length is multiplied by its share of ``unroll``.

    Raises:
        ArgumentError: If a value is out of its range, or two options exclude each other.
    """

    data: str | None = option(
        None, "text file, also .xz, .gz or .bz2; or a folder with train, valid and test files"
    )
    out: str | None = option(None, "run folder; runs/NAME-OF-DATA if left out", metavar="RUN")
    level: str = option("word", "what is predicted: words or characters", choices=LEVELS)
    encoding: str = option("utf-8", "of the files")
    valid: str | None = option(
        None, "file to validate on, instead of a part of DATA", metavar="FILE"
    )
    valid_fraction: float = option(0.1, "part of DATA's lines to validate on, before the last")
    test: str | None = option(None, "file to test on, instead of a part of DATA", metavar="FILE")
    test_fraction: float = option(0.1, "part of DATA's lines to test on, the last ones")
    min_count: int = option(1, "a token seen less often in training is unknown")
    max_vocabulary: int = option(0, "most tokens that are known, the frequent ones; 0: all")
    cell: str = option("string-kernel", "recurrent cell; `representer cells` lists them")
    order: int = option(1, "words of a string kernel's n-grams, which may have gaps")
    combine: str = option("multiply", "how a string kernel's words join", choices=COMBINES)
    decay: str = option(
        "state", "of a string kernel: a number in [0, 1], learned, input or state", metavar="NAME"
    )
    highway: bool = option(True, "whether string-kernel layers mix input and output")
    filter_length: int = option(1, "words that a filter of the other cells sees")
    layer_norm: bool = option(False, "normalize the memory cell of the other cells")
    hidden_size: int = option(256, "units of a layer but the last")
    embedding_size: int = option(0, "numbers per token, units of the last layer; 0: as the layers")
    num_layers: int = option(2, "layers")
    cutoffs: str = option("", "adaptive softmax: first tokens of its clusters", metavar="LIST")
    input_dropout: float = option(0.3, "dropout on the embeddings")
    layer_dropout: float = option(0.0, "dropout between layers")
    output_dropout: float = option(0.3, "dropout on the last layer's output")
    locked: bool = option(False, "one mask for all steps of a segment in these three")
    embedding_dropout: float = option(0.0, "share of the words that a segment does not see")
    rnn_dropout: float = option(0.0, "in string-kernel layers, one mask for all steps")
    weight_dropout: float = option(0.0, "on the entries of recurrent matrices (DropConnect)")
    initial: str = option("string", "whose first embeddings", choices=INITIALS)
    activation_penalty: float = option(0.0, "times the mean square of the output (AR)")
    slowness_penalty: float = option(0.0, "times the mean square of its change (TAR)")
    batch_size: int = option(32, "parallel streams")
    unroll: int = option(35, "steps of a segment")
    variable_unroll: bool = option(False, "draw the length of each segment about that")
    epochs: int = option(10, "passes over the training text")
    max_steps: int = option(0, "stop after so many steps, if that is earlier; 0: no limit")
    optimizer: str = option(
        "adam",
        "how weights are changed; nt-asgd averages them once validation gets worse, asgd from the "
        "start, and stops by the same rule",
        choices=OPTIMIZERS,
    )
    lr: float = option(2e-3, "learning rate")
    lr_decay: float = option(1.0, "its factor after every epoch, from lr-decay-from on")
    lr_decay_from: int = option(1, "epochs after which this is done first")
    weight_decay: float = option(0.0, "L2 penalty")
    clip_norm: float = option(0.25, "largest norm of the gradient; 0: any")
    patience: int = option(5, "stop after so many epochs without a gain; 0: never")
    evaluation_rows: int = option(10, "parallel streams in validation; the test has one")
    baselines: bool = option(True, "count n-grams to compare with")
    seed: int = option(0, "of weights, segments and dropout")
    threads: int = option(0, "CPU threads; 0: as torch chooses")
    preset: str | None = option(
        None,
        "settings of a paper's model; other options win over it",
        choices=("string-5m", "string-20m", "awd"),
    )
    start_from: str | None = option(
        None, "run whose best weights to begin with, to fine-tune them", metavar="RUN"
    )
    resume: bool = option(False, "go on from the newest checkpoint of the run folder")
    demo: bool = option(False, "no DATA: the help topics that Python carries")

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            self._require(name, getattr(self, name) >= 1, "a whole number of at least 1")
        for name in _NOT_NEGATIVE:
            self._require(name, getattr(self, name) >= 0, "0 or more")
        for name in _SHARES:
            self._require(name, 0 <= getattr(self, name) < 1, "a number from 0 up to, not at, 1")
        for name in ("valid_fraction", "test_fraction"):
            self._require(name, 0 < getattr(self, name) < 1, "a number between 0 and 1")
        for name in ("lr", "lr_decay"):
            self._require(name, 0 < getattr(self, name) < math.inf, "a number above 0")
        for name, known in _CHOICES.items():
            self._require(name, getattr(self, name) in known, "one of " + ", ".join(known))
        for name in ("data", "valid", "test"):
            is_fine = not self.demo or getattr(self, name) is None
            self._require(name, is_fine, "no file with --demo, which brings its own")
        is_decay = self.decay in DECAYS or is_share(self.decay)
        self._require("decay", is_decay, "a number from 0 to 1, learned, input or state")
        is_limit = self.max_vocabulary == 0 or self.max_vocabulary > 2
        self._require("max_vocabulary", is_limit, "3 or more, or 0")
        is_list = all(word.strip().isdecimal() for word in self.cutoffs.split(",") if self.cutoffs)
        self._require("cutoffs", is_list, "whole numbers with commas between, as in 2000,10000")

    @property
    def borders(self) -> tuple[int, ...]:
        """The cutoffs as numbers."""
        return tuple(int(word) for word in self.cutoffs.split(",")) if self.cutoffs else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, to be written as config.yaml."""
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

# L17 section 6.1, and what its code adds: rate 1 and norm 5 of a loss that is summed over 35 steps
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

# Sizes with which a model learns in about a minute on one core.
DEMO: dict[str, Any] = {
    "hidden_size": 128, "min_count": 2, "epochs": 6, "lr": 4e-3, "threads": 1, "batch_size": 16,
}  # fmt: skip


def defaults(preset: str | None, *, demo: bool) -> dict[str, Any]:
    """Return what the options are where they are not given."""
    chosen = {field.name: field.default for field in fields(LanguageConfig)}
    return chosen | (DEMO if demo else {}) | PRESETS.get(preset or "", {})
