"""Molecules: reading, graphs with the features of L17, splits and resampling."""

from representer.data.molecules.smiles import (
    ATOM_FEATURES,
    BOND_FEATURES,
    ReadOnce,
    atom_features,
    atom_pairs,
    bond_features,
    descriptor_names,
    descriptors,
    labeled_graphs,
    molecule_graph,
    molecule_views,
    parse_smiles,
    read_smiles,
    torsions,
)
from representer.data.molecules.table import (
    BalancedDraws,
    MoleculeTable,
    assembled_molecules,
    canonical,
    invalid_reason,
    molecules_of,
    read_molecules,
    scaffold,
    split_molecules,
)

__all__ = [
    "ATOM_FEATURES", "BOND_FEATURES", "BalancedDraws", "MoleculeTable", "ReadOnce",
    "assembled_molecules", "atom_features", "atom_pairs", "bond_features", "canonical",
    "descriptor_names", "descriptors", "invalid_reason", "labeled_graphs", "molecule_graph",
    "molecule_views", "molecules_of", "parse_smiles", "read_molecules", "read_smiles", "scaffold",
    "split_molecules", "torsions",
]  # fmt: skip
