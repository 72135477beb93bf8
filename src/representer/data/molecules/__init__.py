"""Molecules: reading, graphs with the features of L17, splits and resampling."""

from representer.data.molecules.assembled import assembled_molecules
from representer.data.molecules.balanced import BalancedDraws
from representer.data.molecules.features import (
    ATOM_FEATURES,
    BOND_FEATURES,
    atom_features,
    bond_features,
)
from representer.data.molecules.graphs import molecule_graph
from representer.data.molecules.smiles import labeled_graphs, parse_smiles, read_smiles
from representer.data.molecules.splits import canonical, scaffold, split_molecules
from representer.data.molecules.table import (
    MoleculeTable,
    invalid_reason,
    molecules_of,
    read_molecules,
)

__all__ = [
    "ATOM_FEATURES",
    "BOND_FEATURES",
    "BalancedDraws",
    "MoleculeTable",
    "assembled_molecules",
    "atom_features",
    "bond_features",
    "canonical",
    "invalid_reason",
    "labeled_graphs",
    "molecule_graph",
    "molecules_of",
    "parse_smiles",
    "read_molecules",
    "read_smiles",
    "scaffold",
    "split_molecules",
]
