"""Baselines of the graph task: the Weisfeiler-Lehman kernel, and a constant prediction."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from representer.estimators.graph_reading import PlainGraph
from representer.kernels import WeisfeilerLehmanKernel
from representer.kernels.graphs import Graph
from representer.printable import say
from representer.tasks.baselines import Baseline, constant_prediction

CANDIDATES = (0.1, 1.0, 10.0, 100.0)
FOLDS, DEPTH = 5, 3
MOST = 5000  # training graphs; the Gram matrix grows with their square


def graph_baselines(
    train: Sequence[PlainGraph],
    values: NDArray[Any],
    test: Sequence[PlainGraph],
    *,
    is_regression: bool,
) -> list[Baseline]:
    """Train both baselines and predict the test graphs."""
    constant = constant_prediction(values, len(test), is_regression=is_regression)
    if len(train) > MOST:
        say(f"the kernel baseline is left out: {len(train)} training graphs are more than {MOST}")
        return [constant]
    return [_kernel_machine(train, values, test, is_regression=is_regression), constant]


def _kernel_machine(
    train: Sequence[PlainGraph],
    values: NDArray[Any],
    test: Sequence[PlainGraph],
    *,
    is_regression: bool,
) -> Baseline:
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
    )


def _discrete(graph: PlainGraph) -> Graph:
    """Return the graph with a label for each node and edge; equal numbers are equal labels."""
    nodes: list[Any] = _labels(graph.nodes) or [0] * graph.count
    return Graph(nodes, torch.from_numpy(graph.edge_index), _labels(graph.edges))


def _labels(values: Any) -> list[Any] | None:
    if values is None:
        return None
    return list(values) if isinstance(values, tuple) else [tuple(row) for row in values.tolist()]
