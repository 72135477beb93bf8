"""The task ``series``: classification and regression of series. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from representer.checks import require, require_choices, require_integers
from representer.options.task import (
    ANSWERS,
    READ,
    Streaming,
    TargetParameters,
    Task,
    config_of,
    defaults_with,
    functions_in,
    option,
)

OF_SERIES = ("training", "series", "none")
OF_FILTERS = ("random", "kernel")


@dataclass(kw_only=True, eq=False, repr=False)
class SeriesParameters(TargetParameters):
    """Parameters of the kernel and of the network for series, and of their inputs."""

    valid_fraction: float | None = option(
        None, "fraction of the training data used for validation (default: 0.1; of few data more)"
    )
    answer: str = option(
        "kernel", "predict with the exact kernel, the network, or both", choices=ANSWERS
    )
    num_features: int = option(10_000, "features of the kernel")
    standardize: str = option(
        "training",
        "standardize each channel over the training data, over the series, or not at all",
        choices=OF_SERIES,
    )
    cell: str = option("gated-cnn", "cell of the network; `representer cells` lists them")
    filter_length: int = option(9, "filter length of the network in steps")
    dilation: int | None = option(
        None, "steps between two slots of such a filter (default: 1, or those of the kernel's)"
    )
    initial: str | None = option(
        None,
        "filters of the network before training: random, or those of the kernel with the largest "
        "share of its scores (default: kernel, if filters have 9 steps or more)",
        choices=OF_FILTERS,
    )
    hidden_size: int = option(64, "units of the cell")
    num_layers: int = option(2, "number of layers")
    dropout: float = option(0.1, "dropout before the last layer")
    average_weights: bool = option(True, "keep the average of the weights of the last steps")
    lr: float = option(5e-3, "learning rate of Adam")
    clip_norm: float = option(1.0, "clip the norm of the gradient; 0: no clipping")

    def check(self) -> None:
        super().check()
        require_integers(self, 1, "num_features", "filter_length", "hidden_size", "num_layers")
        require_integers(self, 1, "dilation", is_none_allowed=True)
        is_long = self.initial != "kernel" or self.filter_length >= 9
        require(self, "filter_length", is_long, "9 or more with initial='kernel'")
        require(self, "dropout", 0 <= self.dropout < 1, "a number in [0, 1)")
        require_choices(self, standardize=OF_SERIES, initial=(None, *OF_FILTERS))


@dataclass(frozen=True)
class SeriesReading:
    """Options of reading series; the default of a run is that of its training."""

    label: str | None = option(
        None,
        "column of the labels of a table (default: by its name, or without names the first)",
        metavar="COLUMN",
    )
    series: str | None = option(
        None,
        "column with the name of the series, where a table has a row for each step",
        metavar="COLUMN",
    )
    time: str | None = option(
        None, "column of the times of such a table, to sort by (default: by its name)",
        metavar="COLUMN",
    )  # fmt: skip


@dataclass(frozen=True)
class SeriesOptions:
    """Options of the task."""

    data: str | None = option(
        None,
        ".ts file; .npz file with X (N, T) or (N, C, T) and y; or table with a row for each series "
        "(label and values) or for each step (series, label, time and channels)",
    )


SeriesConfig: type[Any] = config_of(
    "SeriesConfig", __name__, SeriesReading, SeriesOptions, SeriesParameters
)
DEMO: dict[str, Any] = {"num_features": 2000, "test_fraction": 0.3, "threads": 1}


TASK = Task(
    name="series",
    summary="Train a model of labeled series in .ts files, tables or .npz files.",
    noun="series",
    config=SeriesConfig,
    defaults=defaults_with(SeriesConfig, DEMO),
    options=dict.fromkeys(READ, (SeriesReading,)) | {"predict": (SeriesReading, Streaming)},
    estimators=(
        "representer.estimators.series:SeriesClassifier",
        "representer.estimators.series:SeriesRegressor",
    ),
    functions=functions_in("representer.tasks.series", without=("drift",)),
    packages=("accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2"),
)  # fmt: skip
