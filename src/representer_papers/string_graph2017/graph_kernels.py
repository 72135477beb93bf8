"""Graph classification: the kernels of L17 section 3 with SVMs, and the derived networks."""

from __future__ import annotations

import json
import statistics
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from representer.kernels import Kernel
from representer.storage.run_folder import RunFolder
from representer.tasks.recipe import Request
from representer_papers.shared.lines import Measure
from representer_papers.shared.runs import Run, run_missing
from representer_papers.string_graph2017 import nested_folds
from representer_papers.string_graph2017.graph_kernels_table import write_table
from representer_papers.string_graph2017.graph_networks import EPOCHS, tested_folds
from representer_papers.string_graph2017.graph_sets import GraphData, Located, locate, read
from representer_papers.string_graph2017.kernel_families import DEPTH, Grams, candidates
from representer_papers.string_graph2017.published import FAMILIES, GRAPH_NETWORKS

LARGE = 500  # data sets with at least so many graphs have three inner folds instead of five
INNER = "inner.json"
MEASURE = Measure(
    "graph-kernels", "test accuracy",
    lambda metrics: sum(f["right"] for f in metrics["folds"])
    / max(1, sum(f["tested"] for f in metrics["folds"])),
    "outer folds", planned=lambda _: nested_folds.OUTER,
)  # fmt: skip


def reproduce(request: Request) -> Path:
    """Run the missing rows in ``OUT/DATASET/ROW-seedK``, and write the table.

    A seed is a repeat of nested cross-validation. A run of a family of kernels stores the
    accuracies of the inner folds as soon as they are known, that of a network a run of each fold.
    """
    places = locate(request.data, request.datasets)
    for place in places:
        home = request.out / place.dataset.name
        settings = {"data": place.digest, "smoke": request.smoke}
        runs = []
        for seed, row in product(request.seeds, request.cells or (*FAMILIES, *GRAPH_NETWORKS)):
            own, length = {"row": row, "seed": seed, **settings}, ""
            if row in GRAPH_NETWORKS:
                length = "epochs"
                own[length] = 1 if request.smoke else max(1, round(request.budget * EPOCHS))
            runs.append(Run(home / f"{row}-seed{seed}", own, length))
        train = partial(_run, request, place, home / "grams")
        run_missing(request, MEASURE, runs, partial(read, place), train)
    return write_table(request, [place.dataset for place in places])


def _run(
    request: Request,
    place: Located,
    grams: Path,
    folder: RunFolder,
    settings: dict[str, Any],
    data: GraphData,
) -> dict[str, Any]:
    threads, row, seed = request.threads or None, settings["row"], settings["seed"]
    folds = nested_folds.outer_folds(data.labels, data.folds, seed)
    if row in GRAPH_NETWORKS:
        rows = tested_folds(folder, settings, data, folds, threads)
        return {"epochs": settings["epochs"], "stopped_by": "epochs", "folds": rows}
    order, depth = (2, 2) if request.smoke else (place.dataset.order, DEPTH)
    made = candidates(row, Grams(grams, data.graphs), order, depth)
    inner = 2 if request.smoke else 5 if len(data.graphs) < LARGE else 3
    with warnings.catch_warnings():  # an SVM is evaluated where its solver stopped
        warnings.simplefilter("ignore", ConvergenceWarning)
        rows = _nested(folder, made, data, folds, inner, seed, threads)
    print(f"{100 * statistics.mean(r['right'] / r['tested'] for r in rows):.2f} %", flush=True)
    return {"inner folds": inner, "folds": rows}


def _nested(
    folder: RunFolder,
    made: dict[str, Callable[[], Kernel]],
    data: GraphData,
    folds: list[nested_folds.Fold],
    inner: int,
    seed: int,
    threads: int | None,
) -> list[dict[str, Any]]:
    """Select a kernel in each outer fold by the accuracies of its inner folds, and test it."""

    def gram(name: str) -> np.ndarray:
        return np.asarray(made[name]()(range(len(data.graphs))))

    path = folder.path / INNER
    known: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for name in made:
        if name not in known:
            K = gram(name)
            # threads suffice, since the SVM solver releases the GIL
            jobs = [(K, data.labels, fold.train, inner, seed) for fold in folds]
            parallel = Parallel(threads or -1, prefer="threads")
            known[name] = parallel(delayed(nested_folds.inner_accuracies)(*job) for job in jobs)
            folder.write_json(INNER, known)
    choices = [nested_folds.best({n: known[n][k] for n in made}) for k in range(len(folds))]
    rows: dict[int, dict[str, Any]] = {}
    for name in dict.fromkeys(name for name, _, _ in choices):
        K = gram(name)
        for k, (chosen, cost, accuracy) in enumerate(choices):
            if chosen == name:
                right = nested_folds.count_correct(K, data.labels, folds[k], cost)
                rows[k] = {"kernel": name, "C": cost, "inner accuracy": accuracy}
                rows[k] |= {"right": right, "tested": len(folds[k].test)}
    return [rows[k] for k in range(len(folds))]
