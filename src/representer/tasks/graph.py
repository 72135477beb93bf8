"""Classification and regression of graphs."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from representer.data.graphs import read_graph_file
from representer.errors import say
from representer.estimators import GraphClassifier, GraphRegressor
from representer.estimators.graph_inputs import PlainGraph
from representer.kernels import WeisfeilerLehmanKernel
from representer.kernels.graphs import Graph
from representer.options.graph import TASK
from representer.tasks.flow import EstimatorTask
from representer.tasks.objects import Data, Objects
from representer.tasks.results import Baseline, Facts, constant_prediction, ranks

# ``fit``, ``evaluate``, ``predict`` and ``explain`` of graphs: reader, demo, facts, baselines.

DEMO_GRAPHS = 300


def rings_and_chains(seed: int = 0) -> Objects:
    """Return rings and chains of 4 to 8 nodes, each with random branches of 2 to 8 nodes."""
    rng = random.Random(f"rings and chains/{seed}")
    graphs, labels = [], []
    for row in range(DEMO_GRAPHS):
        is_ring = row % 2 == 0
        core, count = rng.randint(4, 8), 0
        edges = [(v, v + 1) for v in range(core - 1)] + ([(core - 1, 0)] if is_ring else [])
        count = core + rng.randint(2, 8)
        edges += [(rng.randrange(v), v) for v in range(core, count)]
        ends = np.array(edges, dtype=np.int64).T
        both = np.concatenate([ends, ends[::-1]], axis=1)
        graphs.append(PlainGraph(row, count, both, None, None))
        labels.append("ring" if is_ring else "chain")
    source = f"{DEMO_GRAPHS} rings and chains with random branches"
    return Objects(source, source, graphs, labels, range(1, DEMO_GRAPHS + 1))


def _kind(values: object) -> str:
    if isinstance(values, np.ndarray):
        return f"{values.shape[1]} numbers"
    return "labels" if values is not None else ""


@dataclass(frozen=True)
class GraphForm:
    """The form of the graphs of a model; Python saves none of it."""

    node_columns: tuple[str, ...] = ()  # names of labels or numbers, in order; none for any
    edge_columns: tuple[str, ...] = ()


class GraphTask(EstimatorTask):
    """The task ``graph``."""

    declared, noun, nouns = TASK, "graph", "graphs"
    classifier, regressor = GraphClassifier, GraphRegressor
    remembered: ClassVar = {"features": ""}
    form = GraphForm

    def demo(self) -> Objects:
        return rings_and_chains()

    def read(
        self, path: str | Path, *, node_columns: Sequence[str] = (),
        edge_columns: Sequence[str] = (), **how: Any,
    ) -> Objects:  # fmt: skip
        """Read graphs as the estimators take them; see `read_graph_file`."""
        wanted = {"nodes": [*node_columns], "edges": [*edge_columns]}
        columns = {what: names for what, names in wanted.items() if names}
        result = read_graph_file(path, columns=columns, **how)
        reading = {f"{what[:-1]}_columns": names for what, names in (result.columns or {}).items()}
        return Objects(
            source=result.source,
            labels_file=result.labels,
            objects=[
                PlainGraph(row, graph.count, graph.edge_index, graph.nodes, graph.edges)
                for row, graph in enumerate(result.graphs)
            ],
            labels=[graph.label for graph in result.graphs],
            lines=[graph.line for graph in result.graphs],
            files=result.files,
            notes=result.notes,
            groups=result.groups,
            reading=reading,
            table=result.table,
            names=[graph.name for graph in result.graphs] if result.table else (),
        )

    def as_trained(self, estimator: Any, form: GraphForm) -> dict[str, Any]:
        """Return the names of what nodes and edges had in training, for `read`."""
        return asdict(form)

    def describe(self, config: Any, data: Data) -> Facts:
        graphs: Sequence[PlainGraph] = data.parts["train"].objects
        nodes = [graph.count for graph in graphs]
        edges = [graph.edge_index.shape[1] for graph in graphs]
        with_edges = next((graph.edges for graph in graphs if graph.edge_index.size), None)
        values = {
            "nodes per graph": f"median {int(np.median(nodes))}, maximum {max(nodes)}",
            "directed edges per graph": f"median {int(np.median(edges))}, maximum {max(edges)}",
            "node features": _kind(graphs[0].nodes) or "their degrees, as labels",
            "edge features": _kind(with_edges) or "none",
        }
        return Facts(values)

    def baselines(self, config: Any, data: Data) -> list[Baseline]:
        train, test = data.parts["train"].objects, data.parts["test"].objects
        return graph_baselines(train, data.values["train"], test, is_regression=data.is_regression)


FLOW = GraphTask()


CANDIDATES = (0.1, 1.0, 10.0, 100.0)
FOLDS, DEPTH = 5, 3
MOST = 5000  # training graphs; the Gram matrix grows with their square


def graph_baselines(
    train: Sequence[PlainGraph], values: NDArray[Any], test: Sequence[PlainGraph], *,
    is_regression: bool,
) -> list[Baseline]:  # fmt: skip
    """Train both baselines and predict the test graphs."""
    constant = constant_prediction(values, len(test), is_regression=is_regression)
    if len(train) > MOST:
        say(f"the kernel baseline is left out: {len(train)} training graphs are more than {MOST}")
        return [constant]
    return [_kernel_machine(train, values, test, is_regression=is_regression), constant]


def _kernel_machine(
    train: Sequence[PlainGraph], values: NDArray[Any], test: Sequence[PlainGraph], *,
    is_regression: bool,
) -> Baseline:  # fmt: skip
    started = time.perf_counter()
    graphs = [_discrete(graph) for graph in (*train, *test)]
    has_edges = any(graph.edges is not None for graph in graphs)
    kernel = WeisfeilerLehmanKernel(depth=DEPTH, edges=has_edges).cosine()
    gram = np.asarray(kernel(graphs))
    fitted, tested = gram[: len(train), : len(train)], gram[len(train) :, : len(train)]
    if is_regression:
        machine, name = KernelRidge(kernel="precomputed"), "ridge regression"
        grid = {"alpha": [1 / (2 * c) for c in CANDIDATES]}
        offset, smallest = values.mean(), len(train)
    else:
        machine, name, grid = SVC(kernel="precomputed"), "SVM", {"C": list(CANDIDATES)}
        offset, smallest = 0, int(np.unique(values, return_counts=True)[1].min())
    folds, origin = min(FOLDS, smallest), ""
    model: Any = machine
    if folds > 1:
        metric = "neg_mean_squared_error" if is_regression else "accuracy"
        model = GridSearchCV(machine, grid, cv=folds, scoring=metric)
        origin = f" by {folds}-fold cross-validation on the training graphs"
    model.fit(fitted, values - offset)
    selected = model.best_params_ if folds > 1 else {key: getattr(machine, key) for key in grid}
    shown = ", ".join(f"{key} = {value:g}" for key, value in selected.items())
    return Baseline(
        f"Weisfeiler-Lehman kernel + {name}",
        f"Normalized subtree kernel of depth {DEPTH}, {name} with {shown}{origin}.",
        model.predict(tested) + offset,
        time.perf_counter() - started,
        [ranks(model, tested)],
    )


def _discrete(graph: PlainGraph) -> Graph:
    """Return the graph with a label for each node and edge; equal numbers are equal labels."""
    nodes: list[Any] = _labels(graph.nodes) or [0] * graph.count
    return Graph(nodes, torch.from_numpy(graph.edge_index), _labels(graph.edges))


def _labels(values: Any) -> list[Any] | None:
    if values is None:
        return None
    return list(values) if isinstance(values, tuple) else [tuple(row) for row in values.tolist()]
