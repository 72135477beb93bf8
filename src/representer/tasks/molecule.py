"""Properties of molecules: from a table of SMILES and values to a described model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from representer.data.molecules import (
    MoleculeTable,
    assembled_molecules,
    descriptors,
    molecules_of,
    parse_smiles,
    read_smiles,
    scaffold,
    split_molecules,
)
from representer.data.molecules.table import are_numbers, read_molecule_grid
from representer.errors import KindError
from representer.estimators import MoleculeClassifier, MoleculeRegressor
from representer.estimators.explanation import NETWORK
from representer.kernels.overlaps import ColorCounts, overlap
from representer.kernels.weisfeiler_lehman_kernel import WeisfeilerLehmanKernel
from representer.options.molecule import TASK, MoleculeConfig
from representer.storage.run import RunFolder
from representer.tasks.flow import EstimatorTask, Trained
from representer.tasks.objects import Data, Objects, Split
from representer.tasks.results import LINES, SMALL, Baseline, Facts, Model

# Baselines of a molecule run, trained on the same split.

DEPTHS = (1, 2, 3)
PENALTIES = (0.1, 1.0, 10.0, 100.0)


def no_structure(data: Data) -> Baseline:
    """Predict the training mean, or the training frequencies of the classes, for every molecule."""
    started, count, predicted = time.perf_counter(), len(data.parts["test"]), []
    for column in data.columns("train"):
        truth = column.at(column.known()).truth
        if column.classes:
            shares = np.bincount(truth, minlength=len(column.classes)) / len(truth)
            predicted.append(np.tile(shares, (count, 1)))
        else:
            predicted.append(np.full(count, truth.mean()))
    if data.is_regression:
        return _baseline(data, "mean", "Always the mean of the training data.", predicted, started)
    about = "Always the frequencies of the classes in the training data."
    return _baseline(data, "class frequencies", about, predicted, started)


def subtree_ridge(data: Data) -> Baseline:
    """Train ridge or logistic regression on the sparse counts of the WL subtree kernel.

    Ridge regression on these features is kernel ridge regression on the Gram matrix. Depth and
    penalty are selected on the validation part.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    started = time.perf_counter()
    parts = [data.parts[name] for name in ("train", "valid", "test")]
    graphs = [read_smiles(smiles) for objects in parts for smiles in objects.objects]
    ends = np.cumsum([len(objects) for objects in parts])
    columns = data.columns("train")
    labeled = {name: _known(data, name) for name in ("train", "valid")}
    counts = {}
    for depth in DEPTHS:
        every = WeisfeilerLehmanKernel(depth=depth, edges=True).counts(graphs)
        counts[depth] = (every[: ends[0]], every[ends[0] : ends[1]], every[ends[1] :])

    def candidate(k: int, depth: int, penalty: float) -> tuple[float, Any]:
        train, valid, test = counts[depth]
        rows, truth = labeled["train"][k]
        to_validate, wanted = labeled["valid"][k]
        if data.is_regression:
            # conjugate gradients, since there are more features than molecules
            model: Any = Ridge(penalty, solver="sparse_cg", tol=1e-4, max_iter=2000)
            model.fit(train[rows], truth)
            loss = float(((model.predict(valid[to_validate]) - wanted) ** 2).sum())
            return loss, model.predict(test)
        model = LogisticRegression(C=1 / penalty, max_iter=1000)
        model.fit(train[rows], truth)
        width = len(columns[k].classes)
        loss = -float(_logs(_all_classes(model, valid[to_validate], width), wanted).sum())
        return loss, _all_classes(model, test, width)

    best = [
        min((candidate(k, depth, p) for depth in DEPTHS for p in PENALTIES), key=lambda c: c[0])[1]
        for k in range(len(columns))
    ]
    method = "ridge" if data.is_regression else "logistic regression"
    about = "Linear in the subtree counts; depth and penalty selected on the validation molecules."
    return _baseline(data, f"WL subtree kernel, {method}", about, best, started)


def fingerprint_forest(data: Data) -> Baseline:
    """Train random forests on counts of circular fingerprints, and RDKit's descriptors."""
    started = time.perf_counter()
    features = counts_and_descriptors(_both(data))
    about = f"{TREES} trees on the counts of circular fingerprints of radius 2, and descriptors."
    name = "ECFP counts and descriptors, random forest"
    return _baseline(data, name, about, _fitted(data, forest, features), started)


def fingerprint_vectors(data: Data) -> list[Baseline]:
    """Train support-vector machines on counted fingerprints with chirality, and on bits."""
    about = "Support vectors on circular fingerprints; C by cross-validation. "
    result = []
    for name, kernel, gram in (
        ("min-max kernel, SVM", "Counts of radius 3 with chirality.", minmax_gram),
        ("ECFP, SVM", "Bits of radius 2, the Tanimoto kernel.", tanimoto_gram),
    ):
        started = time.perf_counter()
        fitted = _fitted(data, support_vectors, gram(_both(data)))
        result.append(_baseline(data, name, about + kernel, fitted, started))
    return result


def _both(data: Data) -> list[str]:
    """Return the molecules of the training and of the test part."""
    return [smiles for name in ("train", "test") for smiles in data.parts[name].objects]


def _fitted(
    data: Data, fit: Callable[..., NDArray[np.float64]], features: NDArray[Any]
) -> list[NDArray[np.float64]]:
    """Return what a model of each target predicts, from features or a Gram matrix of `_both`."""
    count, predicted = len(data.parts["train"]), []
    is_gram = features.shape[0] == features.shape[1]
    for column, (rows, truth) in zip(data.columns("train"), _known(data, "train"), strict=True):
        chosen = np.concatenate([rows, np.arange(count, len(features))])
        block = features[np.ix_(chosen, chosen)] if is_gram else features[chosen]
        width = len(column.classes)
        predicted.append(fit(block, truth, is_regression=data.is_regression, width=width))
    return predicted


def _baseline(
    data: Data, name: str, about: str, found: list[NDArray[np.float64]], started: float
) -> Baseline:
    """Return a baseline from the numbers or probabilities of each target."""
    seconds = time.perf_counter() - started
    if data.is_regression:
        return Baseline(name, about, np.stack(found, axis=1), seconds)
    labels = np.stack([chances.argmax(axis=1) for chances in found], axis=1)
    return Baseline(name, about, labels, seconds, found)


def _known(data: Data, part: str) -> list[tuple[NDArray[np.intp], NDArray[Any]]]:
    """Return the positions with a true value, and these values, of each target."""
    columns = data.columns(part)
    return [(rows, column.at(rows).truth) for column in columns for rows in [column.known()]]


def _all_classes(model: Any, features: Any, width: int) -> NDArray[np.float64]:
    """Return probabilities of all classes, 0 for those without training molecules."""
    scores = np.zeros((features.shape[0], width))
    scores[:, model.classes_] = model.predict_proba(features)
    return scores


def _logs(chances: NDArray[np.float64], truth: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.clip(chances[np.arange(len(truth)), truth.astype(int)], 1e-12, None))


# ``fit``, ``evaluate``, ``predict`` and ``explain`` of molecules: reader, facts and drawings.

GINE = "gine"
OTHER_ELEMENT = {62: 43, 82: 62}  # places of "other" in the lists of atom features


ALIKE, COMPARED = 0.5, 1000  # the least similarity of a pair, and molecules among which it is found


def cliff(
    smiles: Sequence[str], truth: NDArray[Any], rows: NDArray[np.intp], *, is_regression: bool
) -> list[int]:
    """Return two similar molecules whose true values differ most for it; none if none are similar.

    They have the largest structure-activity landscape index, the difference of the values divided
    by that of the structures, with the min-max kernel of counted circular fingerprints.

    References:
        Guha and Van Drie, Structure-Activity Landscape Index, J. Chem. Inf. Model. 2008, (1).
    """
    numbers: list[int] = rows.tolist()
    few = [k for k, row in enumerate(numbers)
           if parse_smiles(smiles[row]).GetNumAtoms() <= SMALL][:COMPARED]  # fmt: skip
    if len(few) < 2:
        return []
    alike, values = minmax_gram([smiles[numbers[k]] for k in few]), truth[few]
    apart = abs(values[:, None] - values) if is_regression else values[:, None] != values
    index = np.where((alike >= ALIKE) & (alike < 1), apart / np.maximum(1 - alike, 1e-9), 0.0)
    first, second = np.unravel_index(index.argmax(), index.shape)
    pair = sorted((few[first], few[second]), key=lambda k: truth[k])
    return [numbers[k] for k in pair] if index.max() > 0 else []


def _names(target: str | None) -> tuple[str, ...]:
    return tuple(target.split(",")) if target else ()


def objects_of(table: MoleculeTable, files: tuple[Path, ...] = ()) -> Objects:
    """Return the molecules and targets of a table."""
    return Objects(
        source=table.source, labels_file=table.source, objects=table.smiles, labels=table.targets,
        lines=table.lines, files=files, notes=table.notes, dropped=table.dropped,
        reading={"smiles": table.smiles_column, "target": ",".join(table.target_columns)},
        targets=table.target_columns, groups=table.groups, is_numbered_by_line=True,
    )  # fmt: skip


class MoleculeTask(EstimatorTask):
    """The task ``molecule``."""

    declared, noun, nouns = TASK, "molecule", "molecules"
    classifier, regressor = MoleculeClassifier, MoleculeRegressor
    remembered: ClassVar = {"smiles": "", "target": ""}

    def read(
        self, path: str | Path, *, smiles: str | None, target: str | None, skip_invalid: bool,
        is_regression: bool, require_labels: bool, groups: str | None = None, **layout: Any,
    ) -> Objects:  # fmt: skip
        """Read the molecules and targets of a table; see `read_molecules`."""
        wanted = target if require_labels else None
        grid, smiles = read_molecule_grid(path, smiles, wanted, **layout)
        table = molecules_of(
            grid, str(Path(path)), smiles, wanted,
            skip_invalid=skip_invalid, require_target=require_labels, groups=groups,
        )  # fmt: skip
        objects = objects_of(table, (Path(path),))
        if require_labels:
            return objects
        return replace(objects, table=grid, targets=_names(target))

    def strings(self, strings: Sequence[str], reading: dict[str, Any]) -> Objects:
        return replace(super().strings(strings, reading), targets=_names(reading["target"]))

    def demo(self) -> Objects:
        return objects_of(assembled_molecules())

    def baselines(self, config: Any, data: Data) -> list[Baseline]:
        every = [subtree_ridge(data), fingerprint_forest(data), *fingerprint_vectors(data)]
        return [*every, no_structure(data)]

    def numbers(self, objects: Objects) -> bool:
        """Return True if a target is a number to predict; 0 and 1 are numbers beside it."""
        return any(are_numbers([label or "" for label in labels]) for _, labels in objects.columns)

    def split_by(self, config: MoleculeConfig) -> Split:
        """Return how molecules are divided; all copies of a molecule are in one part."""

        def positions(objects: Objects, fractions: Sequence[float]) -> Sequence[Sequence[int]]:
            labels = None
            is_of_classes = self.kind(config, {"all": objects}) is self.classifier
            if is_of_classes and len(objects.targets) == 1:
                labels = [label for (label,) in objects.labels]
            return split_molecules(objects.objects, fractions, config.seed, config.split, labels)

        return positions

    def calibrated_by(self, config: MoleculeConfig, objects: Objects) -> list[str] | None:
        """Return the scaffolds of the molecules if a split keeps each of them together."""
        return (
            [scaffold(smiles) for smiles in objects.objects] if config.split == "scaffold" else None
        )

    def describe(self, config: MoleculeConfig, data: Data) -> Facts:
        molecules = [smiles for objects in data.parts.values() for smiles in objects.objects]
        graphs = [graph for encoded in data.encoded.values() for graph in encoded]
        atoms = sorted(len(graph.x) for graph in graphs)
        other = OTHER_ELEMENT[config.features]
        values = {
            "SMILES column": data.sources[0][1].reading["smiles"],
            "split": config.split,
            "atoms": f"median {atoms[len(atoms) // 2]}, maximum {atoms[-1]}",
            "single atoms": f"{sum(count == 1 for count in atoms):,}",
            "molecules of several components": f"{sum('.' in smiles for smiles in molecules):,}",
            "molecules with an element outside the list of atom features": (
                f"{sum(bool(graph.x[:, other].any()) for graph in graphs):,}"
            ),
        }
        return Facts(values)

    def describe_model(
        self, config: MoleculeConfig, data: Data, estimator: Any, network: Any
    ) -> Model:
        name = estimator.network_name
        return Model(name, {"network": name, "units": str(config.hidden_size)} if network else {})

    def results(
        self, run: RunFolder, trained: Trained, others: Sequence[Trained],
        baselines: Sequence[Baseline],
    ) -> tuple[dict[str, Any], dict[str, Any], Sequence[str]]:  # fmt: skip
        """Return the results of every task, and explanations of two test molecules on a cliff."""
        metrics, details, lines = super().results(run, trained, others, baselines)
        test, column = trained.data.parts["test"], trained.data.columns("test")[0]
        rows = cliff(test.objects, column.at(column.known()).truth, column.known(),
                     is_regression=trained.data.is_regression)  # fmt: skip
        try:
            pair = test.subset(rows)
            entries = self.entries(run.path, trained.estimator, pair, LINES) if rows else []
        except KindError:  # a network whose output is no sum
            entries = []
        for row, entry in zip(rows, entries, strict=False):
            truth = str(test.columns[0][1][row])
            entry["truth"] = f"{float(truth):.4g}" if trained.data.is_regression else truth
        return metrics, details | {"cliff": entries}, lines

    def networks(self, config: MoleculeConfig) -> dict[str, MoleculeConfig]:
        if config.baselines != "all" or config.network == GINE:
            return {"": config}
        out = str(Path(config.out or "") / GINE)
        return {
            config.network: config,
            GINE: replace(config, network=GINE, answer=NETWORK, out=out),
        }

    def title(self, config: MoleculeConfig, data: Data) -> str:
        source = data.sources[0][1].source
        name = source if config.demo else Path(source).name
        return f"{name}: {', '.join(data.targets)} from the molecule"


FLOW = MoleculeTask()


# Models of molecules that chemists run, as baselines: forests and support vectors.


BITS, TREES, SHARE = 2048, 100, 0.2  # bits of a fingerprint; trees, and features tried at a node
SVM_PENALTIES = (1.0, 3.0, 10.0)  # of a support-vector machine, chosen by cross-validation
EPSILON, FOLDS = 0.1, 5  # of the standard deviation
CHOSEN_ON = 1000  # molecules, since the time grows faster than their number


def counts_and_descriptors(smiles: Sequence[str]) -> NDArray[np.float32]:
    """Return counts of circular fingerprints (ECFP4), and RDKit's descriptors ``(N, F)``."""
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    make = GetMorganGenerator(radius=2, fpSize=BITS)
    counts = [make.GetCountFingerprintAsNumPy(parse_smiles(molecule)) for molecule in smiles]
    numbers = np.nan_to_num([descriptors(molecule) for molecule in smiles], posinf=0.0, neginf=0.0)
    return np.hstack([counts, numbers]).astype(np.float32)


def minmax_gram(smiles: Sequence[str]) -> NDArray[np.float64]:
    """Return the min-max kernel of counted circular fingerprints, radius 3, with chirality."""
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    make = GetMorganGenerator(radius=3, includeChirality=True)
    prints = [make.GetSparseCountFingerprint(parse_smiles(molecule)).GetNonzeroElements()
             for molecule in smiles]  # fmt: skip
    names, columns = np.unique([key for each in prints for key in each], return_inverse=True)
    ends = np.cumsum([0, *map(len, prints)])
    counts = np.array([count for each in prints for count in each.values()], np.float64)
    table = sparse.csr_array((counts, columns, ends), shape=(len(prints), len(names)))
    sizes = np.asarray(table.sum(axis=1)).ravel().astype(np.int64)
    counted = ColorCounts(table, sizes, len(names))
    return overlap(counted.common(counted), sizes[:, None], sizes)


def tanimoto_gram(smiles: Sequence[str]) -> NDArray[np.float64]:
    """Return the Tanimoto kernel of the bits of circular fingerprints (ECFP4)."""
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    make = GetMorganGenerator(radius=2, fpSize=BITS)
    bits = np.stack([make.GetFingerprintAsNumPy(parse_smiles(molecule)) for molecule in smiles])
    table = bits.astype(np.float32)
    sizes = bits.sum(1, np.int64)
    return overlap((table @ table.T).astype(np.float64), sizes[:, None], sizes)


def support_vectors(
    gram: NDArray[np.float64], values: NDArray[Any], *, is_regression: bool, width: int = 0
) -> NDArray[np.float64]:
    """Return numbers, or chances of classes, by a support-vector machine whose C is chosen.

    The Gram matrix ``(N + M, N + M)`` is of the training objects, then of the test objects.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, cross_val_predict
    from sklearn.svm import SVC, SVR

    count = len(values)
    train, test = gram[:count, :count], gram[count:, :count]
    some = np.sort(np.random.default_rng(0).permutation(count)[:CHOSEN_ON])
    mean, scale = (values.mean(), values.std() or 1.0) if is_regression else (0, 1)
    targets = (values - mean) / scale if is_regression else values
    least = FOLDS if is_regression else int(np.bincount(values)[np.unique(values)].min())
    folds = min(FOLDS, len(some), least)
    model: Any = SVR(kernel="precomputed", epsilon=EPSILON) if is_regression else SVC(
        kernel="precomputed", class_weight="balanced"
    )  # fmt: skip
    seen = None if is_regression else np.unique(values)
    if seen is not None and (len(seen) < 2 or folds < 2):
        return np.tile(np.bincount(values, minlength=width) / count, (len(test), 1))
    if folds >= 2:
        search = GridSearchCV(model, {"C": SVM_PENALTIES}, cv=folds)
        search.fit(train[np.ix_(some, some)], targets[some])
        model.set_params(**search.best_params_)
    fitted = model.fit(train, targets)
    if is_regression:
        return mean + scale * fitted.predict(test)
    aside: Any = cross_val_predict(model, train, targets, cv=folds, method="decision_function")
    link = LogisticRegression().fit(aside.reshape(count, -1), targets)
    chances = np.zeros((len(test), width))
    decided = fitted.decision_function(test).reshape(len(test), -1)
    chances[:, link.classes_] = link.predict_proba(decided)
    return chances


def forest(
    features: NDArray[Any], values: NDArray[Any], *, is_regression: bool, width: int = 0
) -> NDArray[np.float64]:
    """Return numbers, or chances of classes, by a random forest; the test rows come last."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    count = len(values)
    forest: Any = RandomForestRegressor if is_regression else RandomForestClassifier
    model = forest(TREES, max_features=SHARE, random_state=0).fit(features[:count], values)
    if is_regression:
        return model.predict(features[count:])
    chances = np.zeros((len(features) - count, width))
    chances[:, model.classes_] = model.predict_proba(features[count:])
    return chances
