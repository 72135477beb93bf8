"""Graph classification: the kernels of L17 section 3 with SVMs, and the derived networks."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from representer.tasks.recipe import Recipe, Reported, Request
from representer_papers.string_graph2017.graph_sets import (
    FAMILIES,
    GRAPH_SETS,
    NETWORKS,
    PUBLISHED,
    locate,
    read,
)

if TYPE_CHECKING:
    import numpy as np

    from representer.kernels import Kernel
    from representer_papers.string_graph2017.graph_sets import GraphData, GraphSet, Located
    from representer_papers.string_graph2017.kernel_families import Grams

SOURCE = "L17 Sec. 3"
ROWS = (*FAMILIES, *NETWORKS)
LARGE = 500  # data sets with at least so many graphs have three inner folds instead of five
REPORTED = {
    (row, dataset.name): Reported(value, "% accuracy", PUBLISHED[row])
    for dataset in GRAPH_SETS.values()
    for row, value in dataset.published.items()
}


def reproduce(request: Request) -> Path:
    """Run the missing rows, and write the table.

    Each repeat is a folder ``OUT/DATASET/seedK``. It has a file for each kernel with the accuracies
    of the inner folds, one for each family with the results of the outer folds, and a run folder
    for each network and fold.
    """
    from representer_papers.string_graph2017.graph_kernels_table import write_table

    places = locate(request.data, request.datasets)
    for place in () if request.table_only else places:
        _run_set(request, place, request.cells or ROWS)
    return write_table(request, [place.dataset for place in places])


GRAPH_KERNELS = Recipe(
    name="graph-kernels",
    title="Graph classification: walks, WL and composed kernels with SVM, networks, four TU sets",
    source=SOURCE,
    reproduce=reproduce,
    cells=ROWS,
    datasets=tuple(GRAPH_SETS),
    reported=REPORTED,
)


def _run_set(request: Request, place: Located, rows: tuple[str, ...]) -> None:
    from representer.storage import atomic
    from representer_papers.shared.runs import refuse_others

    home, data = request.out / place.dataset.name, read(place)
    for seed in request.seeds:
        folder = home / f"seed{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        inner = 2 if request.smoke else 5 if len(data.graphs) < LARGE else 3
        settings = {"data": data.digest, "inner folds": inner, "smoke": request.smoke}
        refuse_others(folder / "settings.json", settings)
        atomic.write_json(folder / "settings.json", settings)
        for row in rows:
            if row in FAMILIES:
                from sklearn.exceptions import ConvergenceWarning

                from representer_papers.string_graph2017.kernel_families import Grams

                repeat = _Repeat(request, place.dataset, data, folder, seed, inner)
                with warnings.catch_warnings():  # an SVM is evaluated where its solver stopped
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    repeat.run(row, Grams(home / "grams", data.graphs))
            else:
                from representer_papers.string_graph2017.graph_networks import run_network

                run_network(request, row, data, folder, seed)


class _Repeat:
    """Nested cross-validation of kernels: one repeat on one data set."""

    def __init__(
        self, request: Request, dataset: GraphSet, data: GraphData, folder: Path, seed: int,
        inner: int,
    ) -> None:  # fmt: skip
        from representer_papers.string_graph2017.kernel_families import DEPTH
        from representer_papers.string_graph2017.nested_folds import outer_folds

        self._threads, self._seed, self._inner = request.threads, seed, inner
        self._sizes = (2, 2) if request.smoke else (dataset.order, DEPTH)
        self._labels, self._folder = data.labels, folder
        self._folds = outer_folds(data.labels, data.folds, seed)
        self._all = range(len(data.graphs))

    def run(self, family: str, grams: Grams) -> None:
        """Select a kernel of the family in each outer fold, and test it."""
        from representer.storage import atomic
        from representer_papers.string_graph2017.kernel_families import candidates
        from representer_papers.string_graph2017.nested_folds import best, count_correct

        path = self._folder / f"{family}.json"
        if path.exists():
            return
        made = candidates(family, grams, *self._sizes)
        inner = {name: self._inner_accuracies(family, name, made[name]) for name in made}
        choices = [best({name: inner[name][k] for name in made}) for k in range(len(self._folds))]
        rows: dict[int, dict[str, Any]] = {}
        for name in dict.fromkeys(name for name, _, _ in choices):
            K = self._gram(made[name])
            for k, (chosen, cost, accuracy) in enumerate(choices):
                if chosen == name:
                    fold = self._folds[k]
                    right = count_correct(K, self._labels, fold, cost)
                    rows[k] = {"kernel": name, "C": cost, "inner accuracy": accuracy}
                    rows[k] |= {"right": right, "tested": len(fold.test)}
        atomic.write_json(path, {"folds": [rows[k] for k in range(len(self._folds))]})
        accuracies = [row["right"] / row["tested"] for row in rows.values()]
        print(f"{path}: {100 * sum(accuracies) / len(accuracies):.2f} %", flush=True)

    def _inner_accuracies(
        self, family: str, name: str, make: Callable[[], Kernel]
    ) -> list[list[float]]:
        """Return the inner accuracy of a kernel in every outer fold, with each cost."""
        from joblib import Parallel, delayed

        from representer.storage import atomic
        from representer_papers.string_graph2017.nested_folds import inner_accuracies

        path = self._folder / "inner" / f"{family} {name.replace('=', '')}.json"
        if path.exists():
            return json.loads(path.read_text("utf-8"))["accuracies"]
        path.parent.mkdir(exist_ok=True)
        K = self._gram(make)
        # threads suffice, since the SVM solver releases the GIL
        jobs = [(K, self._labels, fold.train, self._inner, self._seed) for fold in self._folds]
        parallel = Parallel(self._threads or -1, prefer="threads")
        accuracies: Any = parallel(delayed(inner_accuracies)(*job) for job in jobs)
        atomic.write_json(path, {"accuracies": accuracies})
        return accuracies

    def _gram(self, make: Callable[[], Kernel]) -> np.ndarray:
        import numpy as np

        return np.asarray(make()(self._all))
