"""Graph classification: the kernels of L17 section 3 with SVMs, and the derived networks."""

from __future__ import annotations

import io
import operator
import statistics
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from torch import Tensor

from representer import kernels, nn
from representer.kernels import Kernel
from representer.storage import atomic
from representer.storage.run import RunFolder
from representer.tasks.recipe import Request
from representer.training import generators
from representer.training.config import TrainerConfig, TrainingTask
from representer.training.trainer import Trainer
from representer_papers.shared import tables
from representer_papers.shared.datasets import SMOKE_ROWS
from representer_papers.string_graph2017 import graph_sets
from representer_papers.string_graph2017.graph_sets import OUTER, Fold, GraphData, GraphStore
from representer_papers.string_graph2017.published import (
    FAMILIES,
    GRAPH_NETWORKS,
    PUBLISHED,
    GraphSet,
)

# The networks derived from graph kernels as classifiers, trained on the outer folds.


EPOCHS, BATCH, UNITS, LR = 200, 32, 32, 5e-3
VALID = 9  # a ninth of the training part selects the best epoch
_EVALUATION_BATCH = 256


class GraphClassifier(torch.nn.Module):
    """A graph layer, followed by batch normalization and a linear layer.

    Args:
        row: A key of ``GRAPH_NETWORKS``.
        tags: Number of node labels.
        classes: Number of classes.
        units: Number of units of the graph layer.
    """

    def __init__(self, row: str, tags: int, classes: int, units: int) -> None:
        super().__init__()
        if row == "walk-network":
            self.layer = nn.RandomWalkKernelNN(tags, units, order=3, decay="learned")
        else:
            self.layer = nn.WLKernelNN(tags, units, depth=4, label_channels=units, sigma="relu")
        self.norm = torch.nn.BatchNorm1d(units)
        self.dropout = torch.nn.Dropout(0.5)
        self.output = torch.nn.Linear(units, classes)

    def forward(self, graphs: graph_sets.GraphBatch) -> Tensor:
        """Return the logits of each graph."""
        edges, batch = graphs.edge_index, graphs.batch
        units = self.layer(graphs.x, edges, batch=batch, batch_size=len(graphs.y))
        return self.output(self.dropout(F.relu(self.norm(units))))


def tested_folds(
    folder: RunFolder,
    settings: dict[str, Any],
    data: GraphData,
    folds: Sequence[Fold],
    threads: int | None,
) -> list[dict[str, Any]]:
    """Train and test a network in each outer fold, resuming interrupted runs."""
    rows, store = [], _store(data)
    for k, fold in enumerate(folds):
        home = folder.path / "folds" / f"fold{k + 1}"
        with RunFolder(home, resume=home.exists(), has_resume=False) as run:
            rows.append(_run_fold(run, settings, store, fold, k, threads))
    return rows


def _store(data: GraphData) -> GraphStore:
    """Return the graphs with one-hot node features."""
    columns: list[Any] = [graph.x for graph in data.graphs]
    tags = torch.cat(columns)[:, 0]
    kinds, numbers = torch.unique(tags, return_inverse=True)
    features = F.one_hot(numbers, len(kinds))
    sizes = [len(column) for column in columns]
    graphs = [graph.clone() for graph in data.graphs]
    for graph, x in zip(graphs, features.split(sizes), strict=True):
        graph.x = x
    return GraphStore.of(graphs, torch.from_numpy(data.labels))


def _run_fold(
    run: RunFolder, settings: dict[str, Any], store: GraphStore, fold: Fold, k: int,
    threads: int | None,
) -> dict[str, Any]:  # fmt: skip
    fold_seed = generators.derive(settings["seed"], "fold", k)
    labels = store.y.numpy()
    split = StratifiedKFold(VALID, shuffle=True, random_state=fold_seed % 2**32)
    fit, check = next(iter(split.split(fold.train, labels[fold.train])))
    train, valid = fold.train[fit], fold.train[check]
    units = 4 if settings["smoke"] else UNITS
    with generators.initializing(fold_seed):
        model = GraphClassifier(settings["row"], store.features, int(labels.max()) + 1, units)
    config = TrainerConfig(
        epochs=settings["epochs"], lr=LR, monitor="valid_score", seed=fold_seed, threads=threads,
        show_progress=False,
    )  # fmt: skip
    watched = {"row": settings["row"], "seed": settings["seed"], "fold": k + 1, "units": units}
    trainer = Trainer(model, _task(store, train, valid, fold_seed), config, run, settings=watched)
    result = trainer.fit()
    trainer.restore_best()
    model.eval()
    predictions = _logits(model, store, fold.test).argmax(dim=1)
    right = int((predictions == store.y[torch.from_numpy(fold.test)]).sum())
    epoch = None if result.best is None else result.best["epoch"]
    return {"right": right, "tested": len(fold.test), "epoch": epoch}


def _task(store: GraphStore, train: np.ndarray, valid: np.ndarray, seed: int) -> TrainingTask:
    def batches(epoch: int) -> list[list[int]]:
        order = torch.randperm(len(train), generator=generators.generator(seed, "order", epoch))
        parts = np.array_split(train[order.numpy()], -(-len(train) // BATCH))
        return [numbers.tolist() for numbers in parts]  # of nearly equal size: no batch of one

    def loss(model: torch.nn.Module, graphs: graph_sets.GraphBatch) -> tuple[Tensor, int]:
        return F.cross_entropy(model(graphs), graphs.y), len(graphs.y)

    def evaluate(model: torch.nn.Module, check: graph_sets.Check) -> dict[str, float]:
        logits = _logits(model, store, valid, check)
        truth = store.y[torch.from_numpy(valid)]
        accuracy = (logits.argmax(dim=1) == truth).double().mean().item()
        mean = F.cross_entropy(logits, truth).item()
        # the loss breaks ties of the accuracy
        score = accuracy - 1e-3 * min(mean, 1e2)
        return {"valid_loss": mean, "valid_accuracy": accuracy, "valid_score": score}

    return TrainingTask(batches, store, loss, evaluate)


def _logits(
    model: torch.nn.Module,
    store: GraphStore,
    numbers: np.ndarray,
    check: graph_sets.Check = lambda: None,
) -> Tensor:
    batches = graph_sets.outputs_in_batches(model, store, numbers, _EVALUATION_BATCH, check)
    return torch.cat([outputs for _, outputs in batches])


DECAYS = (0.1, 0.3, 1.0)
BANDWIDTHS = (0.1, 0.3, 1.0)
DEPTH = 6


class StoredKernel(Kernel):
    """A kernel of graph numbers with precomputed values, for use in sums and compositions."""

    def __init__(self, values: np.ndarray, scale: float = 1.0) -> None:
        self.values = values
        self.scale = scale

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> np.ndarray:
        """Return the Gram matrix of X with Y, or of X with itself."""
        rows = list(X)
        return self.scale * self.values[np.ix_(rows, rows if Y is None else list(Y))]

    def diag(self, X: Iterable[Any]) -> np.ndarray:
        """Return the diagonal of the Gram matrix of X."""
        return self.scale * self.values.diagonal()[list(X)]


class Grams:
    """The Gram matrices of a data set, computed on first use and stored in files of a folder."""

    def __init__(self, folder: Path, graphs: Sequence[Any]) -> None:
        self._folder, self._graphs = folder, graphs

    def walks(self, order: int) -> np.ndarray:
        """Return the Gram matrix of walks of ``order`` nodes."""
        return self._get(f"walks-{order}", kernels.RandomWalkKernel(order, base="delta"))

    def subtrees(self, depth: int) -> np.ndarray:
        """Return the Gram matrix of subtrees up to ``depth`` relabelings."""
        return self._get(f"subtrees-{depth}", kernels.WeisfeilerLehmanKernel(depth=depth))

    def _get(self, name: str, kernel: Kernel) -> np.ndarray:
        path = self._folder / f"{name}.npy"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            file = io.BytesIO()
            np.save(file, np.asarray(kernel(self._graphs)))
            atomic.write_bytes(path, file.getvalue())
        return np.load(path, mmap_mode="r", allow_pickle=False)


def candidates(
    family: str, grams: Grams, order: int, depth: int = DEPTH
) -> dict[str, Callable[[], Kernel]]:
    """Return a constructor of each kernel of a family by its name, the simplest kernel first.

    All plain kernels have a unit diagonal, also inside compositions.
    """
    below, _, activation = family.partition("-")
    plain: dict[str, Callable[[], Kernel]]
    if below == "walk":
        plain = {f"n={n}": partial(_levels, grams, [(n, 1.0)]) for n in range(1, order + 1)}
    elif below == "levels":
        plain = {
            f"n={n}, λ={lam:g}": partial(
                _levels, grams, [(k, lam ** (k - 1)) for k in range(1, n + 1)]
            )
            for n in range(order, 1, -2)[::-1]
            for lam in DECAYS
        }
    else:
        plain = {
            f"L={level}": lambda level=level: StoredKernel(grams.subtrees(level)).cosine()
            for level in range(1, depth + 1)
        }
    if not activation:
        return plain
    points = {"": kernels.InversePolynomial()}
    if activation == "rbf":
        points = {f", s={bandwidth:g}": kernels.Gaussian(bandwidth) for bandwidth in BANDWIDTHS}
    return {
        f"{name}{end}": lambda make=make, point=point: make().activated(point)
        for name, make in plain.items()
        for end, point in points.items()
    }


def _levels(grams: Grams, scales: Sequence[tuple[int, float]]) -> Kernel:
    """Return a sum of kernels of walks, by their number of nodes and their factor."""
    levels = [StoredKernel(grams.walks(order), scale) for order, scale in scales]
    return reduce(operator.add, levels[1:], levels[0]).cosine()


COSTS = (1.0, 10.0, 100.0, 1000.0)
STEPS = 100_000  # limit of the solver; with overlapping classes, a high cost would take far more


def inner_accuracies(
    K: np.ndarray, labels: np.ndarray, train: np.ndarray, folds: int, repeat: int
) -> list[float]:
    """Return the mean accuracy over the inner folds with each of `COSTS`.

    ``K`` is the Gram matrix of all graphs, ``train`` the training graphs of the outer fold.
    """
    inner = StratifiedKFold(folds, shuffle=True, random_state=repeat)
    accuracies = []
    for fit, check in inner.split(train, labels[train]):
        fold = Fold(train[fit], train[check])
        accuracies.append([right / len(check) for right in _counts(K, labels, fold, COSTS)])
    return np.mean(accuracies, axis=0).tolist()


def count_correct(K: np.ndarray, labels: np.ndarray, fold: Fold, cost: float) -> int:
    """Return the number of test graphs that an SVM trained on the fold classifies correctly."""
    return _counts(K, labels, fold, [cost])[0]


def best(accuracies: Mapping[str, list[float]]) -> tuple[str, float, float]:
    """Return the kernel and cost with the highest inner accuracy, and that accuracy.

    ``accuracies`` has those of each kernel with each of `COSTS`; the first of equals wins.
    """
    candidates = [
        (name, cost, accuracy)
        for name, row in accuracies.items()
        for cost, accuracy in zip(COSTS, row, strict=True)
    ]
    return max(candidates, key=lambda candidate: candidate[2])


def _counts(K: np.ndarray, labels: np.ndarray, fold: Fold, costs: Sequence[float]) -> list[int]:
    inside, across = K[np.ix_(fold.train, fold.train)], K[np.ix_(fold.test, fold.train)]
    counts = []
    for cost in costs:
        svm = SVC(C=cost, kernel="precomputed", max_iter=STEPS)
        svm.fit(inside, labels[fold.train])
        counts.append(int((svm.predict(across) == labels[fold.test]).sum()))
    return counts


LARGE = 500  # data sets with at least so many graphs have three inner folds instead of five
INNER = "inner.json"
MEASURE = tables.Measure(
    "graph-kernels", "test accuracy",
    lambda metrics: sum(f["right"] for f in metrics["folds"])
    / max(1, sum(f["tested"] for f in metrics["folds"])),
    "outer folds", planned=lambda _: OUTER,
)  # fmt: skip


def reproduce_graph_kernels(request: Request) -> Path:
    """Run the missing rows in ``OUT/DATASET/ROW-seedK``, and write the table.

    A seed is a repeat of nested cross-validation. A run of a family of kernels stores the
    accuracies of the inner folds as soon as they are known, that of a network a run of each fold.
    """
    places = graph_sets.locate_graphs(request.data, request.datasets)
    for files in places:
        home = request.out / files.dataset.name
        settings = {"data": files.digest, "smoke": request.smoke}
        runs = []
        for seed, row in product(request.seeds, request.cells or (*FAMILIES, *GRAPH_NETWORKS)):
            chosen, length = {"row": row, "seed": seed, **settings}, ""
            if row in GRAPH_NETWORKS:
                length = "epochs"
                chosen[length] = 1 if request.smoke else max(1, round(request.budget * EPOCHS))
            runs.append(tables.Run(home / f"{row}-seed{seed}", chosen, length))
        train = partial(_run, request, files, home / "grams")
        load = partial(graph_sets.read_graph_set, files, SMOKE_ROWS if request.smoke else None)
        tables.run_missing(request, MEASURE, runs, load, train)
    return _write_table(request, [files.dataset for files in places])


def _run(
    request: Request,
    place: graph_sets.GraphFiles,
    grams: Path,
    folder: RunFolder,
    settings: dict[str, Any],
    data: GraphData,
) -> dict[str, Any]:
    threads, row, seed = request.threads or None, settings["row"], settings["seed"]
    folds = graph_sets.outer_folds(data.labels, data.folds, seed)
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
    folds: list[Fold],
    inner: int,
    seed: int,
    threads: int | None,
) -> list[dict[str, Any]]:
    """Select a kernel in each outer fold by the accuracies of its inner folds, and test it."""

    def gram(name: str) -> np.ndarray:
        return np.asarray(made[name]()(range(len(data.graphs))))

    inner_of: dict[str, Any] = tables.read_json(folder.path / INNER) or {}
    for name in made:
        if name not in inner_of:
            K = gram(name)
            # threads suffice, since the SVM solver releases the GIL
            jobs = [(K, data.labels, fold.train, inner, seed) for fold in folds]
            parallel = Parallel(threads or -1, prefer="threads")
            inner_of[name] = parallel(delayed(inner_accuracies)(*job) for job in jobs)
            folder.write_json(INNER, inner_of)
    choices = [best({n: inner_of[n][k] for n in made}) for k in range(len(folds))]
    rows: dict[int, dict[str, Any]] = {}
    for name in dict.fromkeys(name for name, _, _ in choices):
        K = gram(name)
        for k, (chosen, cost, accuracy) in enumerate(choices):
            if chosen == name:
                right = count_correct(K, data.labels, folds[k], cost)
                rows[k] = {"kernel": name, "C": cost, "inner accuracy": accuracy}
                rows[k] |= {"right": right, "tested": len(folds[k].test)}
    return [rows[k] for k in range(len(folds))]


# By row and data set, the result of each repeat by its seed.
Results = dict[tuple[str, str], dict[int, dict[str, Any]]]
_BELOW = ("walk", "levels", "wl")
_ABOUT = (
    "",
    "Test accuracy in %, nested ten-fold cross-validation: the inner folds (five, or three from",
    "500 graphs on) select the kernel of a row and the C of the support vector machine, from 1,",
    "10, 100, 1000. Kernels use node labels (degrees, where all labels are equal) but no edge",
    "labels, and have a unit diagonal; the SVM solver makes at most 100,000 steps. Networks keep",
    "the epoch that is best on a ninth of the training part. The first repeat uses the folds of",
    "the data set's file, the others use random folds.",
    "A cell gives the mean over repeats, ± the standard deviation over repeats if there are",
    "several, and in parentheses the standard deviation over the ten folds and the number of",
    "repeats. The deviation over folds is large: do not rely on differences smaller than about a",
    "third of it.",
    "",
    "Rows differ in the number of kernels they select from: composing with RBF triples it.",
)


def _write_table(request: Request, datasets: Sequence[GraphSet]) -> Path:
    """Write ``table.md`` from all results of the folder, and return its path."""
    results = {
        (row, dataset.name): repeats
        for dataset in datasets
        for row, repeats in tables.metrics_by_seed(request.out / dataset.name, "row").items()
    }
    rows = [
        (title, *(_cell(list(results.get((name, d.name), {}).values())) for d in datasets))
        for name, title in (FAMILIES | GRAPH_NETWORKS).items()
    ]
    for name, source in PUBLISHED.items():
        shown = [dataset.published.get(name) for dataset in datasets]
        if any(value is not None for value in shown):
            cells = ["–" if value is None else f"{value:.1f}" for value in shown]
            rows.append((f"*{name}* ({source})", *cells))
    lines = tables.rows_of(("", *(dataset.folder for dataset in datasets)), rows)
    lines += _comparison(results, datasets) + _choices(results, datasets)
    title = "Graph classification: kernels and their networks"
    return tables.write_page(request, title, _ABOUT, lines)


def _accuracies(result: Mapping[str, Any]) -> list[float]:
    """Return the accuracy of each fold of a repeat, in %."""
    return [100 * fold["right"] / fold["tested"] for fold in result["folds"]]


def _cell(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return "not run"
    means = [statistics.mean(_accuracies(result)) for result in results]
    folds = statistics.mean(statistics.stdev(_accuracies(result)) for result in results)
    over = f" ± {statistics.stdev(means):.1f}" if len(means) > 1 else ""
    return f"{statistics.mean(means):.1f}{over} (folds ± {folds:.1f}; {len(means)})"


def _comparison(results: Results, datasets: Sequence[GraphSet]) -> list[str]:
    """Return the differences of composed and plain kernels, and of the plain ones and WL."""
    rows = []
    pairs = [
        (f"{below}-{activation}", below) for below in _BELOW for activation in ("inverse", "rbf")
    ]
    pairs += [(name, "wl") for name in ("levels", "levels-inverse", "levels-rbf")]
    for name, other in pairs:
        gaps = [_gaps(results, name, other, dataset.name) for dataset in datasets]
        means = [statistics.mean(gap) for gap in gaps if gap]
        count = f"{sum(mean > 0 for mean in means)} of {len(means)}" if means else "–"
        rows.append((f"{FAMILIES[name]}, minus {FAMILIES[other]}", *map(_gap, gaps), count))
    heads = ("", *(dataset.folder for dataset in datasets), "mean above 0")
    note = (
        "Mean difference in points on the same repeats and folds, ± its standard error over the "
        "folds. Folds share training data, so the true error is larger."
    )
    table = tables.rows_of(heads, rows, align=f"l{'r' * len(datasets)}l")
    return ["", "## Composed and plain kernels", *table, "", note]


def _gaps(results: Results, row: str, other: str, name: str) -> list[float]:
    """Return the differences of two rows fold by fold, in points, on the repeats of both."""
    first, second = (results.get((which, name), {}) for which in (row, other))
    return [
        a - b
        for seed in sorted(first.keys() & second.keys())
        for a, b in zip(_accuracies(first[seed]), _accuracies(second[seed]), strict=True)
    ]


def _gap(gaps: Sequence[float]) -> str:
    if not gaps:
        return "–"
    error = statistics.stdev(gaps) / len(gaps) ** 0.5
    return f"{statistics.mean(gaps):+.1f} ± {error:.1f}"


def _choices(results: Results, datasets: Sequence[GraphSet]) -> list[str]:
    """Return the table of the kernels selected most often."""
    rows = []
    for name, title in FAMILIES.items():
        cells = []
        for dataset in datasets:
            repeats = results.get((name, dataset.name), {}).values()
            folds = [fold for repeat in repeats for fold in repeat["folds"]]
            chosen = [f"{fold['kernel']}, C={fold['C']:g}" for fold in folds]
            often = max(sorted(set(chosen)), key=chosen.count) if chosen else ""
            cells.append(f"{often} ({chosen.count(often)} of {len(chosen)})" if chosen else "–")
        rows.append((title, *cells))
    heads = ("", *(dataset.folder for dataset in datasets))
    table = tables.rows_of(heads, rows, align="l" * len(heads))
    return ["", "## Kernels selected most often by the inner folds", *table]
