"""The task ``graph``: classification and regression of graphs."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from representer.checks import parse_number, require, require_choices, require_integers
from representer.options.task import (
    READ,
    GroupReading,
    TargetParameters,
    Task,
    config_of,
    defaults_with,
    functions_in,
    grouped,
    option,
)

NETWORKS = ("wl", "random-walk", "gine")
GRAPH_READOUTS = ("levels", "sum", "last")
INITIALS = ("authors", "fan-in")
GRAPH_DECAYS = ("learned", "gated", "state")
MAX_MEMBERS = 100


@dataclass(kw_only=True, eq=False, repr=False)
class GraphParameters(TargetParameters):
    """Parameters of the networks for graphs."""

    lr: float = option(2e-3, "learning rate of Adam")
    network: str = option(
        "wl", "kind of network; tree for edges from child to parent", choices=(*NETWORKS, "tree")
    )
    hidden_size: int = option(64, "units of the network")
    depth: int = option(4, "levels of wl, or layers of gine")
    order: int = option(2, "number of nodes of a walk")
    decay: float | str = option(
        "gated", "decay of walks: a number, learned or gated, or state for tree", metavar="NAME"
    )
    readout: str = option(
        "levels", "readout of wl: its levels side by side, their sum, or the last",
        choices=GRAPH_READOUTS,
    )  # fmt: skip
    normalize: bool = option(True, "standardize the labels of each level of wl, and the readout")
    gate_scale: float = option(1.0, "scale of the gates")
    share_references: bool = option(
        True, "the same references at all levels of wl, as in the code of L17, not the paper"
    )
    initial: str = option("fan-in", "initialization of the weights", choices=INITIALS)
    dropout: float = option(0.0, "dropout before the last layer")
    members: int = option(1, "number of ensemble members")

    def check(self) -> None:
        super().check()
        require_integers(self, 1, "hidden_size", "depth", "order", "members")
        require(self, "members", self.members <= MAX_MEMBERS, f"at most {MAX_MEMBERS}")
        require(self, "dropout", 0 <= self.dropout < 1, "a number in [0, 1)")
        require(self, "gate_scale", 0 < self.gate_scale < math.inf, "a positive number")
        can_differ = self.share_references or (self.network == "wl" and self.readout != "last")
        expected = "true, except for network wl with readout sum or levels"
        require(self, "share_references", can_differ, expected)
        networks = {entry.name: entry for entry in fields(self)}["network"].metadata["choices"]
        require_choices(self, network=networks, readout=GRAPH_READOUTS, initial=INITIALS)
        is_named = self.decay in GRAPH_DECAYS and (self.decay != "state" or self.network == "tree")
        is_decay = is_named or _is_decay(self.decay)
        require(self, "decay", is_decay, "a non-negative number, learned or gated")


def _is_decay(value: Any) -> bool:
    number = parse_number(value) if isinstance(value, str) else value
    return isinstance(number, Real) and 0 <= float(number) < math.inf


@dataclass(kw_only=True, eq=False, repr=False)
class GraphKernelParameters(GraphParameters):
    """Parameters of `GraphClassifier` and `GraphRegressor`, of which only Python has the kernel."""

    kernel: Any = option(None, "kernel of graphs or trees, in place of the default halves")


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


TASK = Task(
    name="graph",
    summary="Train a model of labeled graphs in tables, TU or JSONL files, or of bracketed trees.",
    noun="graphs",
    config=GraphConfig,
    defaults=defaults_with(GraphConfig, DEMO),
    options=grouped(dict.fromkeys((*READ, "suggest", "drift"), (GraphReading,))),
    estimators=(
        "representer.estimators.graph:GraphClassifier",
        "representer.estimators.graph:GraphRegressor",
    ),
    functions=functions_in("representer.tasks.graph", "suggest"),
    packages=("accelerate", "safetensors", "scikit-learn", "torch_geometric", "jinja2"),
)
