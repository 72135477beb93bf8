"""Molecules as PyG graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from representer.data.molecules.features import (
    BOND_FEATURES,
    atom_features,
    bond_features,
    check_features,
)
from representer.data.molecules.smiles import parse_smiles
from representer.errors import MissingExtraError

if TYPE_CHECKING:
    from rdkit.Chem import Mol
    from torch_geometric.data import Data


def molecule_graph(molecule: Mol | str, features: int = 82) -> Data:
    """Return the graph of a molecule: its heavy atoms, and each bond in both directions.

    Args:
        molecule: An RDKit molecule or a SMILES. Several fragments, as in a salt, are one graph; a
            single atom has no edges.
        features: Length of the list of atom features, 62 or 82.

    Returns:
        ``Data`` with x ``(N, features)``, edge_index ``(2, E)`` and edge_attr ``(E, 6)``.

    Raises:
        ArgumentError: If there is no list of this length, or the SMILES is invalid or has no atoms,
            with RDKit's reason.
        MissingExtraError: If RDKit or PyG is not installed.
    """
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtraError("graphs of molecules", "torch_geometric", "graph") from error
    check_features(features)
    read = parse_smiles(molecule) if isinstance(molecule, str) else molecule
    ends: list[tuple[int, int]] = []
    bonds: list[list[float]] = []
    for bond in read.GetBonds():
        u, v = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        ends += [(u, v), (v, u)]
        bonds += [bond_features(bond)] * 2
    return Data(
        x=torch.tensor([atom_features(atom, features) for atom in read.GetAtoms()]),
        edge_index=torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).T.contiguous(),
        edge_attr=torch.tensor(bonds).reshape(-1, len(BOND_FEATURES)),
    )
