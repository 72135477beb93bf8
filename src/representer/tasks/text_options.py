"""The task ``text``: classification and regression of the texts of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from representer.checks import require
from representer.errors import ArgumentError
from representer.estimators.parameters import RANDOM, TextParameters
from representer.tasks.options import (
    READ,
    GroupReading,
    Task,
    config_of,
    defaults,
    functions_in,
    grouped,
    option,
)


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


TEXT = Task(
    name="text",
    summary="Train a model of texts on a table of texts and labels.",
    noun="texts",
    config=TextConfig,
    defaults=defaults_of,
    options=grouped(dict.fromkeys((*READ, "suggest", "drift"), (TextReading,))),
    functions=functions_in("representer.tasks.text", "opened", "suggest"),
    packages=("accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2"),
    takes_strings=True,
)
