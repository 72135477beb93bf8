"""The task ``series``: classification and regression of series. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from representer.estimators.parameters import SeriesParameters
from representer.tasks.options import (
    READ,
    Streaming,
    Task,
    config_of,
    defaults_with,
    functions_in,
    option,
)


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


SERIES = Task(
    name="series",
    summary="Train a model of labeled series in .ts files, tables or .npz files.",
    noun="series",
    config=SeriesConfig,
    defaults=defaults_with(SeriesConfig, DEMO),
    options=dict.fromkeys(READ, (SeriesReading,)) | {"predict": (SeriesReading, Streaming)},
    functions=functions_in("representer.tasks.series", without=("drift",)),
    packages=("accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2"),
)  # fmt: skip
