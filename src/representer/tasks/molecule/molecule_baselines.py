"""Baselines of a molecule run, trained on the same split."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.molecules import parse_smiles, read_smiles
from representer.kernels.weisfeiler_lehman_kernel import WeisfeilerLehmanKernel
from representer.tasks.baselines import Baseline
from representer.tasks.estimator_data import Data

BITS, RADIUS, TREES = 2048, 2, 100
DEPTHS = (1, 2, 3)
PENALTIES = (0.1, 1.0, 10.0, 100.0)


def train_baselines(config: Any, data: Data) -> list[Baseline]:
    """Train the baselines other than networks: a kernel, fingerprints, and a constant."""
    return [subtree_ridge(data), fingerprint_forest(data), no_structure(data)]


def no_structure(data: Data) -> Baseline:
    """Predict the training mean, or the training frequencies of the classes, for every molecule."""
    started, count, found = time.perf_counter(), len(data.parts["test"]), []
    for column in data.columns("train"):
        known = column.at(column.known()).truth
        if column.classes:
            shares = np.bincount(known, minlength=len(column.classes)) / len(known)
            found.append(np.tile(shares, (count, 1)))
        else:
            found.append(np.full(count, known.mean()))
    if data.is_regression:
        return _baseline(data, "mean", "Always the mean of the training data.", found, started)
    about = "Always the frequencies of the classes in the training data."
    return _baseline(data, "class frequencies", about, found, started)


def subtree_ridge(data: Data) -> Baseline:
    """Train ridge or logistic regression on the sparse counts of the WL subtree kernel.

    Ridge regression on these features is kernel ridge regression on the Gram matrix. Depth and
    penalty are selected on the validation part.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    started = time.perf_counter()
    parts = [data.parts[name] for name in ("train", "valid", "test")]
    graphs = [read_smiles(smiles) for part in parts for smiles in part.objects]
    ends = np.cumsum([len(part) for part in parts])
    columns = data.columns("train")
    known = {name: _known(data, name) for name in ("train", "valid")}
    counts = {}
    for depth in DEPTHS:
        every = WeisfeilerLehmanKernel(depth=depth, edges=True).counts(graphs)
        counts[depth] = (every[: ends[0]], every[ends[0] : ends[1]], every[ends[1] :])

    def candidate(k: int, depth: int, penalty: float) -> tuple[float, Any]:
        train, valid, test = counts[depth]
        rows, truth = known["train"][k]
        to_validate, wanted = known["valid"][k]
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
    kind = "ridge" if data.is_regression else "logistic regression"
    about = "Linear in the subtree counts; depth and penalty selected on the validation molecules."
    return _baseline(data, f"WL subtree kernel, {kind}", about, best, started)


def fingerprint_forest(data: Data) -> Baseline:
    """Train random forests on counts of circular fingerprints (ECFP4), a standard baseline."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    started = time.perf_counter()
    train, test = (_fingerprints(data.parts[name].objects) for name in ("train", "test"))
    found = []
    for column, (rows, truth) in zip(data.columns("train"), _known(data, "train"), strict=True):
        if data.is_regression:
            forest: Any = RandomForestRegressor(TREES, max_features=1 / 3, random_state=0)
            found.append(forest.fit(train[rows], truth).predict(test))
        else:
            forest = RandomForestClassifier(TREES, random_state=0)
            forest.fit(train[rows], truth)
            found.append(_all_classes(forest, test, len(column.classes)))
    about = f"{TREES} trees on the counts of circular fingerprints of radius {RADIUS}."
    return _baseline(data, "ECFP, random forest", about, found, started)


def _fingerprints(smiles: Sequence[str]) -> NDArray[np.float32]:
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    make = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    rows = [make.GetCountFingerprintAsNumPy(parse_smiles(s)) for s in smiles]
    return np.stack(rows).astype(np.float32)


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
    found = np.zeros((features.shape[0], width))
    found[:, model.classes_] = model.predict_proba(features)
    return found


def _logs(chances: NDArray[np.float64], truth: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.clip(chances[np.arange(len(truth)), truth.astype(int)], 1e-12, None))
