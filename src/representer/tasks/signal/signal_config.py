"""What one can choose when fitting a model of signals.

Free of torch, since the command line reads its options here.
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
    """How to read recordings, where it is not as in training."""

    events: str | None = option(
        None, "events of .fif and .edf files to take, and their classes: A,B", metavar="NAMES"
    )
    event_start: float | None = option(
        None, "seconds from an event of .fif and .edf files to its window", metavar="SECONDS"
    )
    event_seconds: float | None = option(
        None, "seconds of such a window; the events' own duration if left out", metavar="SECONDS"
    )

    @property
    def names(self) -> list[str]:
        """The names of the events; none for all."""
        return [name.strip() for name in (self.events or "").split(",") if name.strip()]


@dataclass(frozen=True)
class SignalConfig:
    """One run of ``fit signal``. Each field is an option of the command and of config.yaml.

    Raises:
        ArgumentError: If a value is out of its range, or two options exclude each other.
    """

    data: str | None = option(
        None, ".npz or .mat file with X, y, subject and fs; .fif or .edf file, or folder of them"
    )
    out: str | None = option(None, "run folder; runs/NAME-OF-DATA if left out", metavar="RUN")
    events: str | None = option(
        None, "events of .fif and .edf files to take, and their classes: A,B", metavar="NAMES"
    )
    event_start: float = option(
        0.0, "seconds from an event of .fif and .edf files to its window", metavar="SECONDS"
    )
    event_seconds: float | None = option(
        None, "seconds of such a window; the events' own duration if left out", metavar="SECONDS"
    )
    resample: float = option(0.0, "sampling rate to bring the data to; 0: theirs", metavar="HZ")
    window_seconds: float = option(
        0.0, "cut the data's windows into shorter ones; 0: as they are", metavar="SECONDS"
    )
    standardize: str = option(
        "subject",
        "by what a channel gets mean 0 and deviation 1: all windows of the subject, the window, "
        "the training data, or not at all",
        choices=STANDARDIZE,
    )
    folds: int = option(0, "leave so many groups of subjects out in turn; 0: each subject")
    test_subjects: str | None = option(None, "test on these alone, once: A,B", metavar="SUBJECTS")
    valid_fraction: float = option(
        0.2, "part of the training subjects that says when to stop; 0: all train, to the last epoch"
    )
    cell: str = option("rkm-lstm", "recurrent cell; `representer cells` lists them")
    filters: str = option("wavelet", "what the cell reads the signal with", choices=FILTERS)
    filter_length: int = option(40, "samples that a filter sees")
    stride: int = option(20, "samples between two steps of the cell")
    hidden_size: int = option(30, "units of the cell, and filters of each gate")
    num_layers: int = option(1, "layers of the cell")
    layer_norm: bool = option(False, "normalize the cell state")
    free_phase: bool = option(False, "let the first channel of a wavelet have a phase of its own")
    pooling: str = option("mean", "states that are read: mean of all or the last", choices=POOLING)
    channel_dropout: float = option(0.1, "part of the channels left out of a window in training")
    dropout: float = option(0.0, "dropout before the last layer")
    augment: bool = option(
        False, "change training windows at random: sign, place in time, gains, noise"
    )
    epochs: int = option(60, "passes over the training windows, at most")
    batch_size: int = option(32, "windows per step")
    lr: float = option(2e-3, "learning rate of Adam")
    weight_decay: float = option(0.0, "L2 penalty")
    clip_norm: float = option(1.0, "largest norm of the gradient; 0: any")
    patience: int = option(10, "stop after so many epochs without a gain; 0: never")
    monitor: str = option("loss", "which figure says what a gain is", choices=MONITORS)
    baselines: bool = option(True, "train the baseline too")
    jobs: int = option(1, "folds at once, a process of one thread each; 0: one per processor")
    seed: int = option(0, "of folds, weights and order")
    threads: int = option(1, "CPU threads of a training; 0: as torch chooses")
    resume: bool = option(False, "go on; finished folds are not run again")
    demo: bool = option(False, "no DATA: synthetic recordings")

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            self._require(name, getattr(self, name) >= 1, "a whole number of at least 1")
        for name in _NOT_NEGATIVE:
            self._require(name, 0 <= getattr(self, name) < math.inf, "0 or more")
        for name in ("channel_dropout", "dropout", "valid_fraction"):
            self._require(name, 0 <= getattr(self, name) < 1, "a number from 0 up to, not at, 1")
        self._require("lr", 0 < self.lr < math.inf, "a number above 0")
        self._require("folds", self.folds != 1, "0 for each subject, or 2 groups or more")
        for name, known in _CHOICES.items():
            self._require(name, getattr(self, name) in known, "one of " + ", ".join(known))
        is_alone = not (self.folds and self.test_subjects)
        self._require("test_subjects", is_alone, "nothing with --folds")
        is_fine = not self.demo or self.data is None
        self._require("data", is_fine, "nothing with --demo, which brings its own")

    @property
    def reading(self) -> SignalReading:
        """How the data are read."""
        return SignalReading(self.events, self.event_start, self.event_seconds)

    @property
    def tested(self) -> list[str]:
        """The subjects that ``test_subjects`` names."""
        return [s.strip() for s in (self.test_subjects or "").split(",") if s.strip()]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, to be written as config.yaml."""
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

# Sizes with which six folds and the final model learn in about a minute on one core.
DEMO: dict[str, Any] = {
    "hidden_size": 16, "filter_length": 40, "stride": 10, "lr": 1e-2, "epochs": 40, "patience": 8,
}  # fmt: skip


def defaults(*, demo: bool) -> dict[str, Any]:
    """Return what the options are where they are not given."""
    return {field.name: field.default for field in fields(SignalConfig)} | (DEMO if demo else {})
