"""The task ``sequence``: classification and regression of DNA, proteins, events. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from representer.estimators.parameters import SequenceParameters
from representer.tasks.options import READ, Task, config_of, defaults_with, functions_in, option


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


SEQUENCE = Task(
    name="sequence",
    summary="Train a model of labeled DNA, RNA, proteins, or lists of events.",
    noun="sequences",
    config=SequenceConfig,
    defaults=defaults_with(SequenceConfig, DEMO),
    options=dict.fromkeys((*READ, "suggest"), (SequenceReading,)),
    functions=functions_in("representer.tasks.sequence", "suggest", without=("drift",)),
    packages=("accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2"),
)  # fmt: skip
