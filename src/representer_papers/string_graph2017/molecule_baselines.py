"""Baselines of the table of molecules: the mean, and ridge regression on fingerprints."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from representer.storage import atomic
from representer_papers.string_graph2017.molecule_sets import MoleculeSet
from representer_papers.string_graph2017.table3 import MEAN

BITS, RADIUS = 2048, 2
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)


def write_baselines(path: Path, data: MoleculeSet) -> None:
    """Fit the baselines on the training part, and write their RMSE on the test part."""
    values = data.store.y.double().numpy()
    test = values[data.test]
    rows: list[dict[str, Any]] = [
        {"name": MEAN, "parameters": 1, "rmse": _rmse(values[data.train].mean(), test)},
        _ridge(f"ECFP of radius {RADIUS}, {BITS} counts, ridge", _fingerprints(data), data, values),
    ]
    atomic.write_json(path, rows)


def _ridge(name: str, features: Any, data: MoleculeSet, values: np.ndarray) -> dict[str, Any]:
    """Return the figures of ridge regression with the penalty that is best in validation."""
    from sklearn.linear_model import Ridge

    results = []
    for penalty in PENALTIES:
        model = Ridge(penalty).fit(features[data.train], values[data.train])
        valid = _rmse(model.predict(features[data.valid]), values[data.valid])
        test = _rmse(model.predict(features[data.test]), values[data.test])
        results.append((valid, penalty, test))
    _, penalty, rmse = min(results)
    count = features.shape[1] + 1
    return {"name": name, "parameters": count, "rmse": rmse, "penalty": penalty}


def _fingerprints(data: MoleculeSet) -> np.ndarray:
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    from representer.data.molecules import parse_smiles

    make = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    return np.stack(
        [make.GetCountFingerprintAsNumPy(parse_smiles(text)) for text in data.smiles]
    ).astype(np.float32)


def _rmse(predictions: np.ndarray | float, truth: np.ndarray) -> float:
    return math.sqrt(float(np.mean((predictions - truth) ** 2)))
