"""The task ``signal``: classification of recordings of several subjects.

Free of torch, since the command line reads its options here.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from representer.checks import require, require_choices, require_integers, require_numbers
from representer.errors import ArgumentError
from representer.options.task import (
    BASELINES,
    MONITORS,
    READ,
    Streaming,
    TargetParameters,
    Task,
    config_of,
    defaults,
    functions_in,
    option,
    parameters_of,
)

FILTERS = ("wavelet", "dense")
SIGNAL_POOLINGS = ("power", "mean", "last", "max", "flatten", "attention")
STANDARDIZATIONS = ("training", "window", "none")


@dataclass(kw_only=True, eq=False, repr=False)
class SignalParameters(TargetParameters):
    """Parameters of the network for signals and of its inputs.

    With `valid_fraction` 0 there is no validation, and the last epoch is kept.
    """

    _is_validation_required = False
    save_every_epochs = 50

    sampling_rate: float | None = option(None, "sampling rate in Hz; arrays need it", metavar="HZ")
    cell: str = option("linear-kernel", "recurrent cell; `representer cells` lists them")
    filters: str = option("wavelet", "kind of filters", choices=FILTERS)
    filter_length: int | None = option(
        None, "filter length in samples (default: those of half a second)"
    )
    stride: int | None = option(
        None, "stride of the filters in samples (default: those of 1/32 second)"
    )
    hidden_size: int = option(60, "units of the cell")
    num_layers: int = option(1, "number of layers")
    layer_norm: bool = option(False, "normalize the cell state")
    free_phase: bool = option(False, "train the phase of the first channel of a wavelet, too")
    pooling: str = option(
        "power",
        "classify the mean and the power of the outputs, their mean, the last, the largest of each "
        "unit, the largest of each part of the window, or a mean with learned weights",
        choices=SIGNAL_POOLINGS,
    )
    pool_length: int | None = option(
        None, "samples of a part for --pooling flatten (default: those of a filter)"
    )
    channel_dropout: float = option(0.1, "dropout of whole channels in training")
    dropout: float = option(0.0, "dropout before the last layer")
    augment: bool = option(False, "augment training windows: sign, shift, gains, noise")
    standardize: str = option(
        "training",
        "standardize each channel over the training data, over the window, or not at all",
        choices=STANDARDIZATIONS,
    )
    recenter: str | None = option(
        None,
        "subject: the kernel moves and scales the features of each subject to common moments",
        choices=("subject",),
    )
    average_weights: bool = option(True, "keep the average of the weights of the last steps")
    lr: float = option(2e-3, "learning rate of Adam")
    clip_norm: float = option(1.0, "clip the norm of the gradient; 0: no clipping")

    def check(self) -> None:
        super().check()
        is_rate = self.sampling_rate is None or 0 < self.sampling_rate < math.inf
        require(self, "sampling_rate", is_rate, "a positive number of Hz")
        require_integers(self, 1, "filter_length", "pool_length", "stride", is_none_allowed=True)
        require_integers(self, 1, "hidden_size", "num_layers")
        for name in ("channel_dropout", "dropout"):
            require(self, name, 0 <= getattr(self, name) < 1, "a number in [0, 1)")
        require_choices(
            self, filters=FILTERS, pooling=SIGNAL_POOLINGS, standardize=STANDARDIZATIONS,
            recenter=(None, "subject"),
        )  # fmt: skip


def in_samples(parameters: Any, sampling_rate: float) -> dict[str, int]:
    """Return the length and the stride of the filters; where left out, they follow the rate."""
    usual = {"filter_length": sampling_rate / 2, "stride": sampling_rate / 32}
    return {
        name: getattr(parameters, name) or max(1, round(count)) for name, count in usual.items()
    }


STANDARDIZE = ("subject", "window", "training", "none")


@dataclass(frozen=True)
class SignalReading:
    """Options of reading recordings; the default of a run is that of its training."""

    signals: str | None = option(
        None, "array of the windows in .npz and .mat files (default: X)", metavar="NAME"
    )
    labels: str | None = option(
        None, "array of the classes in .npz and .mat files (default: y)", metavar="NAME"
    )
    events: str | None = option(
        None, "events of recordings, such as .edf files, to use as classes: A,B", metavar="NAMES"
    )
    event_start: float | None = option(
        None, "seconds from an event of a recording to its window (default: 0)", metavar="SECONDS",
    )  # fmt: skip
    event_seconds: float | None = option(
        None, "length of such a window (default: duration of the events)", metavar="SECONDS"
    )


@dataclass(frozen=True)
class CrossValidation:
    """Options of a run and its folds; `SignalConfig` adds those of reading and of the estimator.

    An option replaces the estimator's parameter of the same name, with another default.

    Raises:
        ArgumentError: If a value is out of its range, or two options exclude each other.
    """

    data: str | None = option(
        None,
        ".npz or .mat file with X, y, subject and fs; .fif, .edf, .bdf, .vhdr or .set file, or "
        "folder of them; or table (file, label, subject) of tables of samples, a file for each "
        "recording",
    )
    out: str | None = option(None, "run folder (default: runs/NAME-OF-DATA)", metavar="RUN")
    resample: float = option(0.0, "resample to this rate; 0: no resampling", metavar="HZ")
    window_seconds: float = option(
        0.0, "cut recordings into windows of this length; 0: no cutting", metavar="SECONDS"
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
    epochs: int = option(60, "maximum number of passes over the training windows")
    batch_size: int = option(32, "windows per step")
    patience: int = option(10, "stop after this many epochs without improvement; 0: never")
    monitor: str = option("loss", "validation metric for early stopping", choices=MONITORS)
    baselines: str = option(
        "simple", "baselines to train too: none, log band power, or all", choices=BASELINES
    )
    jobs: int | None = option(
        None, "folds to train in parallel (default: one per processor, at most 8)", metavar="N"
    )
    seed: int = option(0, "random seed of folds, weights and order")
    threads: int = option(1, "CPU threads per fold; 0: default of torch")
    resume: bool = option(False, "continue; finished folds are not repeated")
    demo: bool = option(False, "no DATA: synthetic recordings")

    def __post_init__(self) -> None:
        require_numbers(self, "resample", "window_seconds", "folds", "seed", "threads")
        require(self, "jobs", self.jobs is None or self.jobs >= 0, "0 or more")
        require_choices(self, standardize=STANDARDIZE, baselines=BASELINES)
        require(self, "folds", self.folds != 1, "0 for each subject, or 2 groups or more")
        is_alone = not (self.folds and self.test_subjects)
        require(self, "test_subjects", is_alone, "nothing with --folds")
        if self.demo and self.data is not None:
            raise ArgumentError("data", self.data, "nothing with --demo, which has its own data")
        chosen = parameters_of(self, SignalParameters)
        if self.standardize == "subject":  # before the estimator takes the windows
            chosen["standardize"] = "none"
        SignalParameters(**chosen).check()

    @property
    def tested(self) -> list[str]:
        """The subjects that ``test_subjects`` names."""
        return [s.strip() for s in (self.test_subjects or "").split(",") if s.strip()]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, as in config.yaml."""
        return asdict(self)


SignalConfig: type[Any] = config_of(
    "SignalConfig", __name__, CrossValidation, SignalReading, SignalParameters,
    base=CrossValidation, without=("sampling_rate", "conformal", "conformal_by"),
)  # fmt: skip

# Sizes with which six folds and the final model train in about a minute on one core.
DEMO: dict[str, Any] = {
    "hidden_size": 16, "filter_length": 40, "stride": 10, "lr": 1e-2, "epochs": 40, "patience": 8,
}  # fmt: skip

TASK = Task(
    name="signal",
    summary="Train a model of signals on recordings of several subjects, leaving each out in turn.",
    noun="signals",
    config=SignalConfig,
    # in Python one at a time, since only a script with a main guard can start processes
    defaults=lambda given: defaults(SignalConfig, {"jobs": 0} | (DEMO if given.demo else {})),
    options=dict.fromkeys((*READ, "drift"), (SignalReading,))
    | {"predict": (SignalReading, Streaming)},
    estimators=("representer.estimators.signal:SignalClassifier",),
    functions=functions_in("representer.tasks.signal.flow"),
    packages=("accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2"),
    is_shared=False,  # its folds are processes
)
