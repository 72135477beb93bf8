"""Molecules as graphs: what RDKit reads from a SMILES."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from representer.errors import ArgumentError, MissingExtraError
from representer.kernels.graphs import Graph

if TYPE_CHECKING:
    from rdkit.Chem import Mol


def parse_smiles(smiles: str, name: str = "smiles") -> Mol:
    """Return RDKit's molecule; several parts, as of a salt, are one molecule.

    Args:
        smiles: The molecule.
        name: What messages call it.

    Raises:
        ArgumentError: If there is no atom, or RDKit cannot read it, with RDKit's reason.
        MissingExtraError: If RDKit is not installed.
    """
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise MissingExtraError("reading SMILES", "rdkit", "graph") from error
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles.strip())
        if molecule is None:
            raise ArgumentError(name, smiles, "a valid SMILES", hint=_reason(smiles))
    if not molecule.GetNumAtoms():
        raise ArgumentError(name, smiles, "a molecule of at least one atom")
    return molecule


def read_smiles(smiles: str, name: str = "smiles") -> Graph:
    """Read a molecule: heavy atoms by their element, bonds by their type, in both directions.

    Args:
        smiles: The molecule; several parts, as of a salt, are one graph.
        name: What messages call it.

    Raises:
        ArgumentError: If there is no atom, or RDKit cannot read it.
        MissingExtraError: If RDKit is not installed.
    """
    molecule = parse_smiles(smiles, name)
    ends, types = [], []
    for bond in molecule.GetBonds():
        u, v = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        ends += [(u, v), (v, u)]
        types += [str(bond.GetBondType())] * 2
    edge_index = torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).T
    return Graph([atom.GetSymbol() for atom in molecule.GetAtoms()], edge_index, types)


def _reason(smiles: str) -> str:
    """Say why RDKit does not take a SMILES: its grammar, or its chemistry."""
    from rdkit import Chem

    molecule = Chem.MolFromSmiles(smiles.strip(), sanitize=False)
    if molecule is None:
        return "A bracket or ring may be left open, or a symbol be no atom."
    problems = [problem.Message() for problem in Chem.DetectChemistryProblems(molecule)]
    return f"{' '.join(problems[0].split()).rstrip('.')}." if problems else ""
