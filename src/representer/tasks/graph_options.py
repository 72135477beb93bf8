"""The task ``graph``: classification and regression of graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from representer.estimators.parameters import GraphParameters
from representer.tasks.options import (
    READ,
    GroupReading,
    Task,
    config_of,
    defaults_with,
    functions_in,
    grouped,
    option,
)

FEATURES = ("auto", "labels", "attributes")


@dataclass(frozen=True)
class GraphReading:
    """Options of reading graphs; the default of a run is that of its training."""

    features: str = option(
        "auto",
        "of a folder with labels and attributes of nodes or edges, use these (auto: labels)",
        choices=FEATURES,
    )


@dataclass(frozen=True)
class GraphRunOptions:
    """Options of the task."""

    data: str | None = option(
        None,
        "JSONL file of graphs; file with a tree (label (label word) …) a line; or folder in TU "
        "format, or with graphs.csv (graph, label), nodes.csv (graph, node, labels or numbers) and "
        "edges.csv (graph, source, target)",
    )


GraphConfig: type[Any] = config_of(
    "GraphConfig", __name__, GraphReading, GroupReading, GraphRunOptions, GraphParameters
)

# Sizes with which the demo trains in a few seconds on one core.
DEMO: dict[str, Any] = {
    "hidden_size": 16, "depth": 3, "epochs": 12, "lr": 5e-3, "test_fraction": 0.2, "threads": 1,
}  # fmt: skip


GRAPH = Task(
    name="graph",
    summary="Train a model of labeled graphs in tables, TU or JSONL files, or of bracketed trees.",
    noun="graphs",
    config=GraphConfig,
    defaults=defaults_with(GraphConfig, DEMO),
    options=grouped(dict.fromkeys((*READ, "suggest", "drift"), (GraphReading,))),
    functions=functions_in("representer.tasks.graph", "suggest"),
    packages=("accelerate", "safetensors", "scikit-learn", "torch_geometric", "jinja2"),
)
