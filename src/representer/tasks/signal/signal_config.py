"""Options of ``fit signal``.

Does not import torch: the command line reads its options here.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from representer.errors import ArgumentError
from representer.tasks.options import option

FILTERS = ("wavelet", "dense")
POOLING = ("mean", "last")
STANDARDIZE = ("subject", "window", "training", "none")
MONITORS = ("loss", "accuracy")


@dataclass(frozen=True)
class SignalReading:
    """Options of reading recordings; the defaults are those of training."""

    events: str | None = option(
        None, "events of .fif and .edf files to use as classes: A,B", metavar="NAMES"
    )
    event_start: float | None = option(
        None, "seconds from an event of .fif and .edf files to its window", metavar="SECONDS"
    )
    event_seconds: float | None = option(
        None, "length of such a window (default: duration of the events)", metavar="SECONDS"
    )

    @property
    def names(self) -> list[str]:
        """The names of the events; empty for all."""
        return [name.strip() for name in (self.events or "").split(",") if name.strip()]


@dataclass(frozen=True)
class Streaming:
    """Options of predicting recordings as they arrive."""

    stream: bool = option(False, "process recordings step by step; write a row for each step")


@dataclass(frozen=True)
class SignalConfig:
    """One run of ``fit signal``. Each field is an option of the command and of config.yaml.

    Raises:
        ArgumentError: If a value is out of its range, or two options exclude each other.
    """

    data: str | None = option(
        None, ".npz or .mat file with X, y, subject and fs; .fif or .edf file, or folder of them"
    )
    out: str | None = option(None, "run folder (default: runs/NAME-OF-DATA)", metavar="RUN")
    events: str | None = option(
        None, "events of .fif and .edf files to use as classes: A,B", metavar="NAMES"
    )
    event_start: float = option(
        0.0, "seconds from an event of .fif and .edf files to its window", metavar="SECONDS"
    )
    event_seconds: float | None = option(
        None, "length of such a window (default: duration of the events)", metavar="SECONDS"
    )
    resample: float = option(0.0, "resample to this rate; 0: no resampling", metavar="HZ")
    window_seconds: float = option(
        0.0, "cut windows into shorter ones; 0: no cutting", metavar="SECONDS"
    )
    standardize: str = option(
        "subject",
        "standardize each channel over all windows of the subject, over the window, over the "
        "training data, or not at all",
        choices=STANDARDIZE,
    )
    folds: int = option(0, "number of groups of subjects to leave out in turn; 0: each subject")
    test_subjects: str | None = option(
        None, "test on these subjects only, in one fold: A,B", metavar="SUBJECTS"
    )
    valid_fraction: float = option(
        0.2, "fraction of the training subjects used for early stopping; 0: no early stopping"
    )
    cell: str = option("rkm-lstm", "recurrent cell; `representer cells` lists them")
    filters: str = option("wavelet", "kind of filters", choices=FILTERS)
    filter_length: int = option(40, "filter length in samples")
    stride: int = option(20, "stride of the filters in samples")
    hidden_size: int = option(30, "units of the cell")
    num_layers: int = option(1, "number of layers")
    layer_norm: bool = option(False, "normalize the cell state")
    free_phase: bool = option(False, "train the phase of the first channel of a wavelet, too")
    pooling: str = option(
        "mean", "classify the mean of all states or the last state", choices=POOLING
    )
    channel_dropout: float = option(0.1, "dropout of whole channels in training")
    dropout: float = option(0.0, "dropout before the last layer")
    augment: bool = option(False, "augment training windows: sign, shift, gains, noise")
    epochs: int = option(60, "maximum number of passes over the training windows")
    batch_size: int = option(32, "windows per step")
    lr: float = option(2e-3, "learning rate of Adam")
    weight_decay: float = option(0.0, "L2 penalty")
    clip_norm: float = option(1.0, "clip the norm of the gradient; 0: no clipping")
    patience: int = option(10, "stop after this many epochs without improvement; 0: never")
    monitor: str = option("loss", "validation metric for early stopping", choices=MONITORS)
    baselines: bool = option(True, "also train the baseline")
    jobs: int = option(1, "folds to train in parallel; 0: one per processor")
    seed: int = option(0, "random seed of folds, weights and order")
    threads: int = option(1, "CPU threads per fold; 0: default of torch")
    resume: bool = option(False, "continue; finished folds are not repeated")
    demo: bool = option(False, "no DATA: synthetic recordings")

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            self._require(name, getattr(self, name) >= 1, "a positive integer")
        for name in _NOT_NEGATIVE:
            self._require(name, 0 <= getattr(self, name) < math.inf, "0 or more")
        for name in ("channel_dropout", "dropout", "valid_fraction"):
            self._require(name, 0 <= getattr(self, name) < 1, "a number in [0, 1)")
        self._require("lr", 0 < self.lr < math.inf, "a positive number")
        self._require("folds", self.folds != 1, "0 for each subject, or 2 groups or more")
        for name, known in _CHOICES.items():
            self._require(name, getattr(self, name) in known, "one of " + ", ".join(known))
        is_alone = not (self.folds and self.test_subjects)
        self._require("test_subjects", is_alone, "nothing with --folds")
        is_fine = not self.demo or self.data is None
        self._require("data", is_fine, "nothing with --demo, which has its own data")

    @property
    def reading(self) -> SignalReading:
        """Options for reading the data."""
        return SignalReading(self.events, self.event_start, self.event_seconds)

    @property
    def tested(self) -> list[str]:
        """The subjects that ``test_subjects`` names."""
        return [s.strip() for s in (self.test_subjects or "").split(",") if s.strip()]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, as in config.yaml."""
        return asdict(self)

    def _require(self, name: str, is_fine: bool, expected: str) -> None:
        if not is_fine:
            raise ArgumentError(name, getattr(self, name), expected)


_POSITIVE = ("filter_length", "stride", "hidden_size", "num_layers", "epochs", "batch_size")
_NOT_NEGATIVE = (
    "resample", "window_seconds", "folds", "weight_decay", "clip_norm", "patience", "jobs", "seed",
    "threads",
)  # fmt: skip
_CHOICES = {
    "filters": FILTERS, "pooling": POOLING, "standardize": STANDARDIZE, "monitor": MONITORS
}  # fmt: skip

# Sizes with which six folds and the final model train in about a minute on one core.
DEMO: dict[str, Any] = {
    "hidden_size": 16, "filter_length": 40, "stride": 10, "lr": 1e-2, "epochs": 40, "patience": 8,
}  # fmt: skip


def defaults(*, demo: bool) -> dict[str, Any]:
    """Return the default values of all options."""
    return {field.name: field.default for field in fields(SignalConfig)} | (DEMO if demo else {})
