"""The task ``sequence``: classification and regression of DNA, proteins, events. Free of torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from representer.checks import require, require_choices, require_integers
from representer.options.task import (
    ANSWERS,
    READ,
    TargetParameters,
    Task,
    config_of,
    defaults_with,
    functions_in,
    option,
)

OF_LETTERS = {
    "alphabet": ("auto", "dna", "rna", "protein", "any"),
    "base": ("one-hot", "mismatch", "blosum62", "pam250"),
    "strands": ("auto", "one", "both"),
    "pooling": ("sum", "max"),
}


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceParameters(TargetParameters):
    """Parameters of the kernel of letters or tokens, and of the network of sequences."""

    valid_fraction: float | None = option(
        None, "fraction of the training data used for validation (default: 0.1; of few data more)"
    )
    answer: str = option(
        "kernel", "predict with the exact kernel, the network, or both", choices=ANSWERS
    )
    alphabet: str = option(
        "auto", "letters: nucleotides or amino acids in either case with their ambiguous codes, or "
        "any tokens (default: by the training sequences)", choices=OF_LETTERS["alphabet"],
    )  # fmt: skip
    orders: Sequence[int] = option(
        (), "letters of the k-mers of the kernel (default: 6 of nucleotides, "
        "1,2,3 of others)", metavar="LIST",
    )  # fmt: skip
    span: int = option(12, "places over which the letters of a k-mer may spread")
    num_patterns: int = option(12, "patterns of gaps of each order, drawn from all")
    base: str = option(
        "one-hot", "similarity of two letters: equal ones alone, or also others by a constant or "
        "the odds of substitutions of amino acids", choices=OF_LETTERS["base"],
    )  # fmt: skip
    strands: str = option(
        "auto", "strands of DNA and RNA whose k-mers count (default: by left-out errors)",
        choices=OF_LETTERS["strands"],
    )  # fmt: skip
    pooling: str = option(
        "sum", "count k-mers, or take the maximum over positions", choices=OF_LETTERS["pooling"]
    )
    position: float | None = option(
        None, "letters by which equal k-mers may be apart (default: any number)", metavar="X"
    )
    hidden_size: int = option(64, "references of the network")
    lr: float = option(1e-2, "learning rate of Adam")
    average_weights: bool = option(True, "keep the average of the weights of the last steps")

    def check(self) -> None:
        super().check()
        require_integers(self, 1, "hidden_size", "span", "num_patterns")
        are_orders = all(type(order) is int and order >= 1 for order in self.orders)
        require(self, "orders", are_orders, "positive integers")
        is_width = self.position is None or 0 < self.position < math.inf
        require(self, "position", is_width, "a positive number of letters, or None")
        require_choices(self, **OF_LETTERS)
        is_exclusive = self.base == "one-hot" or (self.pooling == "sum" and not self.position)
        require(self, "base", is_exclusive, "one-hot with pooling max or a position")


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceKernelParameters(SequenceParameters):
    """Parameters of `SequenceClassifier` and `SequenceRegressor`; only Python has the kernel."""

    answer: str = option("both", "as of the command line", choices=ANSWERS)
    kernel: Any = option(None, "kernel of sequences of vectors, in place of the default halves")


@dataclass(frozen=True)
class SequenceReading:
    """Options of reading sequences; the default of a run is that of its training."""

    label: str | None = option(
        None,
        "column of the labels of a table, or their key in headers (default: by its name)",
        metavar="COLUMN",
    )
    sequence: str | None = option(
        None, "column of the sequences, or of the tokens (default: by its name)", metavar="COLUMN"
    )
    id: str | None = option(
        None,
        "column with the name of the sequence, where a table has a row for each token",
        metavar="COLUMN",
    )
    order: str | None = option(
        None, "column to sort the tokens of such a table by (default: a time, or as they stand)",
        metavar="COLUMN",
    )  # fmt: skip


@dataclass(frozen=True)
class SequenceOptions:
    """Options of the task."""

    data: str | None = option(
        None,
        "FASTA, FASTQ or GenBank file; or table with a row for each sequence (letters, or tokens "
        "with blanks or commas between them) or for each token",
    )


SequenceConfig: type[Any] = config_of(
    "SequenceConfig", __name__, SequenceReading, SequenceOptions, SequenceParameters
)
DEMO: dict[str, Any] = {
    "span": 8, "num_patterns": 6, "test_fraction": 0.3, "threads": 1,
}  # fmt: skip


TASK = Task(
    name="sequence",
    summary="Train a model of labeled DNA, RNA, proteins, or lists of events.",
    noun="sequences",
    config=SequenceConfig,
    defaults=defaults_with(SequenceConfig, DEMO),
    options=dict.fromkeys((*READ, "suggest"), (SequenceReading,)),
    estimators=(
        "representer.estimators.sequence:SequenceClassifier",
        "representer.estimators.sequence:SequenceRegressor",
    ),
    functions=functions_in("representer.tasks.sequence", "suggest", without=("drift",)),
    packages=("accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2"),
)  # fmt: skip
