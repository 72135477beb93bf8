"""Molecules: reading, graphs with the features of L17, splits and resampling."""

from representer.data.molecules.descriptors import (
    ReadOnce,
    atom_pairs,
    descriptor_names,
    descriptors,
    molecule_views,
    torsions,
)
from representer.data.molecules.smiles import (
    ATOM_FEATURES,
    BOND_FEATURES,
    atom_features,
    bond_features,
    labeled_graphs,
    molecule_graph,
    parse_smiles,
    read_smiles,
)
from representer.data.molecules.splits import (
    BalancedDraws,
    assembled_molecules,
    canonical,
    scaffold,
    split_molecules,
)
from representer.data.molecules.table import (
    MoleculeTable,
    invalid_reason,
    molecules_of,
    read_molecules,
)

__all__ = [
    "ATOM_FEATURES", "BOND_FEATURES", "BalancedDraws", "MoleculeTable", "ReadOnce",
    "assembled_molecules", "atom_features", "atom_pairs", "bond_features", "canonical",
    "descriptor_names", "descriptors", "invalid_reason", "labeled_graphs", "molecule_graph",
    "molecule_views", "molecules_of", "parse_smiles", "read_molecules", "read_smiles", "scaffold",
    "split_molecules", "torsions",
]  # fmt: skip
