"""Baselines of a molecule run, trained on the same split."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.data.molecules import parse_smiles, read_smiles
from representer.errors import MissingExtraError
from representer.kernels.weisfeiler_lehman_kernel import WeisfeilerLehmanKernel
from representer.tasks.molecule.molecule_data import MoleculeData
from representer.tasks.molecule.molecule_predictions import Predictions
from representer.tasks.molecule.molecule_targets import Targets

BITS, RADIUS, TREES = 2048, 2, 100
DEPTHS = (1, 2, 3)
PENALTIES = (0.1, 1.0, 10.0, 100.0)


def train_baselines(data: MoleculeData) -> list[Predictions]:
    """Train the baselines other than the network: a kernel, fingerprints, and the mean."""
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("the baselines", "scikit-learn", "train") from error
    return [subtree_ridge(data), fingerprint_forest(data), no_structure(data)]


def no_structure(data: MoleculeData) -> Predictions:
    """Predict the training mean, or the training frequencies of the classes, for every molecule."""
    started, targets, count = time.perf_counter(), data.targets, len(data.test)
    values = data.train.values
    if targets.is_regression:
        numbers = np.tile(np.nanmean(values, axis=0), (count, 1))
        return Predictions("mean", "Always the mean of the training data.", numbers, None, [],
                       time.perf_counter() - started)  # fmt: skip
    chances = []
    for k, names in enumerate(targets.classes):
        own = values[~np.isnan(values[:, k]), k].astype(int)
        shares = np.bincount(own, minlength=len(names)) / max(1, len(own))
        chances.append(np.tile(shares, (count, 1)))
    about = "Always the frequencies of the classes in the training data."
    return Predictions(
        "class frequencies", about, None, None, chances, time.perf_counter() - started
    )


def subtree_ridge(data: MoleculeData) -> Predictions:
    """Train ridge or logistic regression on the sparse counts of the WL subtree kernel.

    Ridge regression on these features is kernel ridge regression on the Gram matrix. Depth and
    penalty are selected on the validation part.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    started = time.perf_counter()
    parts = (data.train, data.valid, data.test)
    graphs = [read_smiles(smiles) for part in parts for smiles in part.smiles]
    ends = np.cumsum([len(part) for part in parts])
    counts = {}
    for depth in DEPTHS:
        every = WeisfeilerLehmanKernel(depth=depth, edges=True).counts(graphs)
        counts[depth] = (every[: ends[0]], every[ends[0] : ends[1]], every[ends[1] :])

    def candidate(k: int, depth: int, penalty: float) -> tuple[float, Any]:
        train, valid, test = counts[depth]
        rows, truth = _there(data.train.values[:, k])
        to_validate, wanted = _there(data.valid.values[:, k])
        if data.targets.is_regression:
            # conjugate gradients, since there are more features than molecules
            model: Any = Ridge(penalty, solver="sparse_cg", tol=1e-4, max_iter=2000)
            model.fit(train[rows], truth)
            loss = float(((model.predict(valid[to_validate]) - wanted) ** 2).sum())
            return loss, model.predict(test)
        model = LogisticRegression(C=1 / penalty, max_iter=1000)
        model.fit(train[rows], truth.astype(int))
        width = len(data.targets.classes[k])
        loss = -float(_logs(_all_classes(model, valid[to_validate], width), wanted).sum())
        return loss, _all_classes(model, test, width)

    best = [
        min((candidate(k, depth, p) for depth in DEPTHS for p in PENALTIES), key=lambda c: c[0])[1]
        for k in range(len(data.targets.names))
    ]
    kind = "ridge" if data.targets.is_regression else "logistic regression"
    about = "Linear in the subtree counts; depth and penalty selected on the validation molecules."
    return _predictions(data.targets, f"WL subtree kernel, {kind}", about, best, started)


def fingerprint_forest(data: MoleculeData) -> Predictions:
    """Train random forests on counts of circular fingerprints (ECFP4), a standard baseline."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    started = time.perf_counter()
    train, test = (_fingerprints(part.smiles) for part in (data.train, data.test))
    found = []
    for k in range(len(data.targets.names)):
        rows, truth = _there(data.train.values[:, k])
        if data.targets.is_regression:
            forest: Any = RandomForestRegressor(TREES, max_features=1 / 3, random_state=0)
            found.append(forest.fit(train[rows], truth).predict(test))
        else:
            forest = RandomForestClassifier(TREES, random_state=0)
            forest.fit(train[rows], truth.astype(int))
            found.append(_all_classes(forest, test, len(data.targets.classes[k])))
    about = f"{TREES} trees on the counts of circular fingerprints of radius {RADIUS}."
    return _predictions(data.targets, "ECFP, random forest", about, found, started)


def _fingerprints(smiles: Sequence[str]) -> NDArray[np.float32]:
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    make = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    rows = [make.GetCountFingerprintAsNumPy(parse_smiles(s)) for s in smiles]
    return np.stack(rows).astype(np.float32)


def _predictions(
    targets: Targets, name: str, about: str, found: list[NDArray[np.float64]], started: float
) -> Predictions:
    seconds = time.perf_counter() - started
    if targets.is_regression:
        return Predictions(name, about, np.stack(found, axis=1), None, [], seconds)
    return Predictions(name, about, None, None, found, seconds)


def _there(values: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    rows = np.flatnonzero(~np.isnan(values))
    return rows, values[rows]


def _all_classes(model: Any, features: Any, width: int) -> NDArray[np.float64]:
    """Return probabilities of all classes, 0 for those without training molecules."""
    found = np.zeros((features.shape[0], width))
    found[:, model.classes_] = model.predict_proba(features)
    return found


def _logs(chances: NDArray[np.float64], truth: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.clip(chances[np.arange(len(truth)), truth.astype(int)], 1e-12, None))
