"""The molecules of the Clean Energy Project, read once and stored as tensors with their split."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from representer.errors import DataError
from representer.tasks.recipe import Request
from representer_papers.shared.datasets import existing
from representer_papers.shared.graph_store import GraphStore

FRACTIONS = (0.88, 0.02, 0.10)  # the paper: 0.863, 0.037 and 0.1 of a hundred times as many
SMOKE = 60  # molecules in a smoke run


@dataclass(frozen=True)
class MoleculeSet:
    """Molecules with a positive PCE, and their split.

    Attributes:
        smiles: SMILES as in the file.
        store: Molecular graphs with the PCE as ``y``.
        train: Numbers of the training molecules; ``valid`` and ``test`` likewise.
        left_out: Number of molecules left out: a PCE of 0 or below, or an invalid SMILES.
        digest: SHA-256 of the file.
    """

    smiles: list[str]
    store: GraphStore
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    left_out: int
    digest: str


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


def read(path: Path, request: Request) -> MoleculeSet:
    """Read the molecules, or the tensors that an earlier run stored.

    Args:
        path: A file with the columns ``smiles`` and ``PCE``.
        request: The request; its output folder stores the tensors.

    Raises:
        DataError: If the file is invalid.
    """
    from representer.data.molecules import read_molecules

    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    table = read_molecules(path, "smiles", "PCE", skip_invalid=True)
    values = table.numbers()[:, 0]
    kept = np.flatnonzero(values > 0)[: SMOKE if request.smoke else None]
    if not len(kept):
        raise DataError("no molecule has a PCE above 0", file=path, column="PCE")
    smiles = [table.smiles[i] for i in kept]
    file = request.out / f"molecules-{digest[:12]}-{len(kept)}.safetensors"
    if file.exists():
        import safetensors.torch

        tensors = safetensors.torch.load_file(file)
    else:
        from representer.storage import atomic

        tensors = _tensors(smiles, torch.from_numpy(values[kept]).float())
        request.out.mkdir(parents=True, exist_ok=True)
        atomic.write_tensors(file, tensors)
    part = tensors.pop("part").numpy()
    left_out = len(table) + len(table.dropped) - len(kept)
    train, valid, test = (np.flatnonzero(part == k) for k in range(len(FRACTIONS)))
    return MoleculeSet(smiles, GraphStore(tensors), train, valid, test, left_out, digest)


def _tensors(smiles: list[str], values: Tensor) -> dict[str, Tensor]:
    from representer.data.molecules import molecule_graph, split_molecules

    print(f"reading {len(smiles)} molecules", flush=True)
    store = GraphStore.of([molecule_graph(text) for text in smiles], values)
    part = torch.zeros(len(smiles), dtype=torch.uint8)
    for k, numbers in enumerate(split_molecules(smiles, FRACTIONS)):
        part[numbers] = k
    return {**store.tensors(), "part": part}
