"""The task ``text``: classification and regression of the texts of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from representer.checks import require, require_choices, require_integers
from representer.errors import ArgumentError
from representer.options.task import (
    READ,
    GroupReading,
    TargetParameters,
    Task,
    config_of,
    defaults,
    functions_in,
    grouped,
    option,
    require_decay,
)

TOKENIZERS = ("words", "blanks", "leam")
POOLINGS = ("mean", "attention", "padded_mean")
STARTS = ("unit", "paper")
PADDINGS = ("causal", "same")
COMBINATIONS, READOUTS = ("multiply", "add", "add_exact"), ("last", "sum")
NORMALIZATIONS: dict[str, Any] = {"no": False, "paper": True, "exact": "exact"}
TRAINING, RANDOM = VECTORS = ("training", "random")


@dataclass(kw_only=True, eq=False, repr=False)
class TextParameters(TargetParameters):
    """Parameters of the network for texts and of its inputs."""

    valid_fraction: float | None = option(
        None,
        "fraction of the training data used for validation (default: 0.1; of fewer than 1000 "
        "texts more, up to 0.3)",
        metavar="X",
    )
    cell: str = option("rkm-cifg", "recurrent cell; `representer cells` lists them")
    hidden_size: int = option(128, "units of the cell")
    filter_length: int = option(1, "filter length in words: n of the n-gram")
    filter_lengths: Sequence[int] = option(
        (),
        "several filter lengths in place of one, which share the units, such as 1,2,3",
        metavar="LIST",
    )
    filter_padding: str = option(
        "causal",
        "window of a filter: causal, which ends with the current word, or same, which is centered "
        "there, as in the code of L19, against its equations",
        choices=PADDINGS,
    )
    order: int = option(2, "length of the n-grams of a string kernel, which may have gaps")
    decay: float | str | None = option(
        None,
        "decay of a string kernel: a number in [0, 1], learned, input or state (default: state)",
        metavar="NAME",
    )
    combine: str = option(
        "multiply", "words of an n-gram of a string kernel: their products or their sum",
        choices=COMBINATIONS,
    )  # fmt: skip
    normalized: str = option(
        "no", "n-grams of a string kernel: summed, with a factor 1 - decay for each new one "
        "(paper), or their mean (exact)", choices=tuple(NORMALIZATIONS),
    )  # fmt: skip
    readout: str = option(
        "last", "output of a string kernel: n-grams of the full order, or the sum of all orders",
        choices=READOUTS,
    )  # fmt: skip
    dilation: int = option(1, "steps between the words of a filter")
    num_layers: int = option(1, "number of layers")
    bidirectional: bool = option(False, "add a reverse direction")
    layer_norm: bool | None = option(None, "normalize the memory cell (default: if it can be)")
    embedding_size: int = option(128, "size of the word embeddings, unless --vectors sets it")
    vectors: Any = option(
        TRAINING,
        "start of the word vectors: training (which words stand together in the training texts), "
        "random, or pretrained ones, which the kernel compares, too: a file (GloVe, word2vec or "
        "fastText text, or .npz), a model2vec folder, or an installed package with vectors",
        metavar="FILE",
    )
    features: Sequence[str] = option(
        (), "columns of numbers or categories next to the text, such as price,brand: one more "
        "kernel in the sum, with a contribution of each", metavar="COLUMNS",
    )  # fmt: skip
    freeze_embeddings: bool = option(False, "do not train the word vectors")
    average_weights: bool = option(True, "keep the average of the weights of the last steps")
    dropout: float = option(0.5, "dropout in the classifier")
    pooling: str = option(
        "attention",
        "mean over time: over the true length, with learned weights, or over the padded length",
        choices=POOLINGS,
    )
    multilabel: bool = option(
        False, "each text has any number of labels: y are lists of labels, or indicators (N, K)"
    )
    tokenizer: str = option("words", "tokenization scheme", choices=TOKENIZERS)
    min_count: int = option(2, "words rarer than this in the training data are unknown")
    max_length: int = option(400, "truncate texts after this many words")
    forget_bias: float = option(0.0, "initial bias of the forget gate")
    candidate_bias: bool = option(
        False, "add a bias to the candidate, as in the code of L19, against its equations"
    )
    learn_static_gates: bool = option(False, "train the constant gates of a linear kernel")
    initialization: str = option(
        "unit", "start of the cell: states of unit variance, or as in the paper", choices=STARTS
    )

    def check(self) -> None:
        super().check()
        are_names = all(type(name) is str and name for name in self.features)
        is_fine = are_names and not isinstance(self.features, str) and self.answer != "network"
        expected = "a list of names of columns, which the network does not read"
        require(self, "features", is_fine or self.features == (), expected)
        if self.multilabel and self.conformal is not None:
            raise ArgumentError("conformal", self.conformal, "None with multilabel=True")
        require_integers(
            self, 1, "hidden_size", "filter_length", "dilation", "order", "num_layers",
            "embedding_size", "min_count", "max_length",
        )  # fmt: skip
        require(self, "dropout", 0 <= self.dropout < 1, "a number in [0, 1)")
        are_lengths = all(type(n) is int and n >= 1 for n in self.filter_lengths)
        expected = "different positive integers, no more than units"
        is_fine = are_lengths and len(set(self.filter_lengths)) == len(self.filter_lengths)
        is_fine = is_fine and len(self.filter_lengths) <= self.hidden_size
        require(self, "filter_lengths", is_fine, expected)
        require_choices(self, pooling=POOLINGS, tokenizer=TOKENIZERS, initialization=STARTS)
        require_choices(self, filter_padding=PADDINGS)
        require_choices(
            self, combine=COMBINATIONS, normalized=tuple(NORMALIZATIONS), readout=READOUTS
        )
        if self.decay is not None:
            require_decay(self)


@dataclass(frozen=True)
class TextReading:
    """Options of reading a table; the defaults are detected. See ``data.text.read_table``."""

    text: str | None = option(
        None, "column(s) with the text: TITLE,BODY joins two (default: detected)", metavar="COLUMN"
    )
    label: str | None = option(
        None, "column(s) with the label: A,B are several targets or, of 0 and 1, several labels a "
        "text (default: detected)", metavar="COLUMN",
    )  # fmt: skip
    target: str | None = option(None, "the same as --label", metavar="COLUMN")
    separator: str | None = option(
        None, "between the labels in a cell, with --multilabel (default: detected)",
        metavar="CHARACTERS",
    )  # fmt: skip
    header: bool | None = option(
        None, "whether the first row names the columns (default: detected)"
    )
    delimiter: str | None = option(None, "cell separator (default: detected)", metavar="CHARACTER")
    quotes: bool | None = option(None, "whether double quotes enclose cells")
    encoding: str = option("utf-8", "encoding of the file")


@dataclass(frozen=True)
class TextOptions:
    """Options of the task, and its defaults where they are not those of the estimator."""

    data: str | None = option(None, "CSV, TSV, JSONL, Parquet or .xlsx file")
    demo: bool = option(False, "no DATA: find lines of Python code with two tokens swapped")
    preset: str | None = option(
        None,
        "settings of L19 Table 2; explicit options take precedence",
        choices=("paper", "authors_code"),
    )
    min_length: int = option(1, "skip texts with fewer words")


_Options: Any = config_of(
    "_Options", __name__, TextReading, GroupReading, TextOptions, TextParameters
)


@dataclass(frozen=True)
class TextConfig(_Options):
    """One run of ``fit text``. Each field is an option of the command and a key of config.yaml.

    Raises:
        ArgumentError: If a value is out of its range, or two options exclude each other.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if None not in (self.label, self.target):
            raise ArgumentError("target", self.target, "nothing beside --label")
        require(self, "min_length", self.min_length >= 1, "a positive integer")
        if self.multilabel and self.kind == "regression":
            raise ArgumentError("kind", self.kind, "classification with --multilabel")


# L19 section 6, completed by the authors' code. The paper states neither batch size nor training
# length; those are taken from the released code (40,001 steps of 16 documents). Two details of the
# code contradict the equations of the paper: a window of three words looks one word ahead, and the
# candidate has a bias.
_BOTH: dict[str, Any] = {
    "answer": "network", "hidden_size": 300, "embedding_size": 300, "dropout": 0.5, "lr": 1e-3,
    "tokenizer": "leam", "min_count": 1, "batch_size": 16, "max_steps": 40_001, "epochs": 100_000,
    "evaluate_every": 500, "patience": 0, "initialization": "paper", "vectors": RANDOM,
    "average_weights": False, "monitor": "accuracy",
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "paper": _BOTH | {"max_length": 300, "pooling": "mean"},
    "authors_code": _BOTH
    | {
        "max_length": 128,
        "min_length": 6,
        "pooling": "padded_mean",
        "clip_value": 1.0,
        "forget_bias": 1.0,
        "filter_padding": "same",  # against (12)-(14) of L19
        "candidate_bias": True,  # against (8) of L19
        "learn_static_gates": True,
    },
}

# Sizes with which two models train in a quarter of a minute on one core; more threads slow down
# products this small, and of smaller batches, half of the time goes to calls. The lines of code are
# tokenized already.
DEMO: dict[str, Any] = {
    "hidden_size": 64, "embedding_size": 64, "filter_length": 2, "max_length": 25, "lr": 5e-3,
    "batch_size": 128, "epochs": 4, "min_count": 3, "tokenizer": "blanks", "test_fraction": 0.2,
    "threads": 1, "patience": 3, "monitor": "accuracy",
}  # fmt: skip

# Options that a preset turns on: the cells without these biases, and those with static gates.
_GATELESS = ("string-kernel", "torch-lstm", "rkm")
_STATIC = ("linear-kernel", "linear-kernel-gated", None)


def defaults_of(given: Any) -> dict[str, Any]:
    """Return the defaults of a preset, the demo and a cell; what the cell lacks is turned off."""
    chosen = (DEMO if given.demo else {}) | PRESETS.get(given.preset or "", {})
    chosen |= {"forget_bias": 0.0, "candidate_bias": False} if given.cell in _GATELESS else {}
    chosen |= {} if given.cell in _STATIC else {"learn_static_gates": False}
    return defaults(TextConfig, chosen)


TASK = Task(
    name="text",
    summary="Train a model of texts on a table of texts and labels.",
    noun="texts",
    config=TextConfig,
    defaults=defaults_of,
    options=grouped(dict.fromkeys((*READ, "suggest", "drift"), (TextReading,))),
    estimators=(
        "representer.estimators.text:TextClassifier",
        "representer.estimators.text:TextRegressor",
    ),
    functions=functions_in("representer.tasks.text", "opened", "suggest"),
    packages=("accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2"),
    takes_strings=True,
)
