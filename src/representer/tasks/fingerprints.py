"""Models of molecules that chemists run, as baselines: forests and support vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from representer.data.molecules import descriptors, parse_smiles
from representer.kernels.overlaps import ColorCounts, overlap

BITS, TREES, SHARE = 2048, 100, 0.2  # bits of a fingerprint; trees, and features tried at a node
PENALTIES = (1.0, 3.0, 10.0)  # of a support-vector machine, chosen by cross-validation
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
        search = GridSearchCV(model, {"C": PENALTIES}, cv=folds)
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
