"""The molecules of the Clean Energy Project with their split, and baselines on them."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from representer.data.molecules import (
    molecule_graph,
    parse_smiles,
    read_molecules,
    split_molecules,
)
from representer.errors import DataError
from representer.storage import atomic
from representer.tasks.recipe import Request
from representer_papers.shared.datasets import existing
from representer_papers.shared.graph_store import GraphStore
from representer_papers.string_graph2017.published import MEAN

FRACTIONS = (0.88, 0.02, 0.10)  # the paper: 0.863, 0.037 and 0.1 of a hundred times as many
SMOKE = 60  # molecules in a smoke run
BITS, RADIUS = 2048, 2  # of the fingerprints
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)  # of ridge regression


@dataclass(frozen=True)
class MoleculeSet:
    """Molecules with a positive PCE, and their split."""

    smiles: list[str]  # as in the file
    store: GraphStore  # with the PCE as y
    train: np.ndarray  # numbers of the training molecules
    valid: np.ndarray
    test: np.ndarray
    digest: str  # SHA-256 of the file, and the share that is kept for training


def locate(root: Path) -> Path:
    """Find the file in a folder, or in its folder ``cep``.

    Raises:
        DataError: If it is missing.
    """
    found = existing(root, ("cep", ""), ("cep-processed.csv",))
    if found is None:
        fix = "Pass --data DIR, or set REPRESENTER_DATA."
        raise DataError("there is no cep/cep-processed.csv", file=root, fix=fix)
    return found


def read(path: Path, request: Request, share: int = 1) -> MoleculeSet:
    """Read the columns ``smiles`` and ``PCE``; the graphs are stored in the output folder.

    Args:
        path: The file.
        request: What was asked for.
        share: One in so many molecules of the training part is kept, at random; the sets are
            nested.

    Raises:
        DataError: If the file is invalid.
    """
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    table = read_molecules(path, "smiles", "PCE", skip_invalid=True)
    values = table.numbers()[:, 0]
    kept = np.flatnonzero(values > 0)[: SMOKE if request.smoke else None]
    if not len(kept):
        raise DataError("no molecule has a PCE above 0", file=path, column="PCE")
    smiles = [table.smiles[i] for i in kept]
    file = request.out / f"molecules-{digest[:12]}-{len(kept)}.safetensors"
    if file.exists():
        tensors = safetensors.torch.load_file(file)
    else:
        tensors = _tensors(smiles, torch.from_numpy(values[kept]).float())
        request.out.mkdir(parents=True, exist_ok=True)
        atomic.write_tensors(file, tensors)
    part = tensors.pop("part").numpy()
    train, valid, test = (np.flatnonzero(part == k) for k in range(len(FRACTIONS)))
    if share > 1:
        order = np.random.default_rng(0).permutation(train)
        train, digest = np.sort(order[: len(train) // share]), f"{digest}/{share}"
    return MoleculeSet(smiles, GraphStore(tensors), train, valid, test, digest)


def _tensors(smiles: list[str], values: Tensor) -> dict[str, Tensor]:
    print(f"reading {len(smiles)} molecules", flush=True)
    store = GraphStore.of([molecule_graph(text) for text in smiles], values)
    part = torch.zeros(len(smiles), dtype=torch.uint8)
    for k, numbers in enumerate(split_molecules(smiles, FRACTIONS)):
        part[numbers] = k
    return {**store.tensors(), "part": part}


def write_baselines(path: Path, data: MoleculeSet) -> None:
    """Fit the mean and ridge regression on fingerprints, and write their RMSE on the test part."""
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    y = data.store.y.double().numpy()
    make = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    counts = [make.GetCountFingerprintAsNumPy(parse_smiles(text)) for text in data.smiles]
    mean = _rmse(y[data.train].mean(), y[data.test])
    rmse, penalty = ridge(np.stack(counts).astype(np.float32), y, data)
    name = f"ECFP of radius {RADIUS}, {BITS} counts, ridge"
    rows: list[dict[str, Any]] = [
        {"name": MEAN, "parameters": 1, "rmse": mean},
        {"name": name, "parameters": BITS + 1, "rmse": rmse, "penalty": penalty},
    ]
    atomic.write_json(path, rows)


def ridge(X: np.ndarray, y: np.ndarray, data: MoleculeSet) -> tuple[float, float]:
    """Return the test RMSE of ridge regression, and the penalty, which is best in validation."""
    results = []
    for penalty in PENALTIES:
        model = Ridge(penalty).fit(X[data.train], y[data.train])
        valid, test = (_rmse(model.predict(X[i]), y[i]) for i in (data.valid, data.test))
        results.append((valid, penalty, test))
    _, penalty, test = min(results)
    return test, penalty


def _rmse(predictions: np.ndarray | float, truth: np.ndarray) -> float:
    return math.sqrt(float(np.mean((predictions - truth) ** 2)))
