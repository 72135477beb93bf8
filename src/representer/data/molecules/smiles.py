"""Conversion of SMILES to graphs with RDKit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from representer.errors import ArgumentError, MissingExtraError
from representer.kernels.graphs import Graph, Labels

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Mol

BOND_SIGNS = {"SINGLE": "", "DOUBLE": "=", "TRIPLE": "#", "AROMATIC": ":"}

LONGEST = 10_000  # characters; RDKit's time grows with the square of the number of rings


def parse_smiles(smiles: str, name: str = "smiles") -> Mol:
    """Return the RDKit molecule of a SMILES; several fragments, as in a salt, are one molecule.

    Args:
        smiles: The molecule. Surrounding whitespace is ignored; other whitespace is an error, since
            RDKit would silently drop the rest.
        name: The name of the argument, for messages.

    Raises:
        ArgumentError: If the SMILES has no atoms, more than 10,000 characters, or is invalid, with
            RDKit's reason.
        MissingExtraError: If RDKit is not installed.
    """
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise MissingExtraError("reading SMILES", "rdkit", "graph") from error
    text = smiles.strip()
    if len(text) > LONGEST:
        hint = f"It has {len(text):,} characters; at most {LONGEST:,} are parsed."
        raise ArgumentError(name, f"{text[:40]}...", "a valid SMILES", hint=hint)
    if not (text.isascii() and text.isprintable()) or " " in text:
        hint = "It contains whitespace or another invalid character."
        raise ArgumentError(name, smiles, "a valid SMILES", hint=hint)
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            raise ArgumentError(name, smiles, "a valid SMILES", hint=_reason(smiles))
    if not molecule.GetNumAtoms():
        raise ArgumentError(name, smiles, "a molecule of at least one atom")
    return molecule


def read_smiles(smiles: str, name: str = "smiles") -> Graph:
    """Convert a molecule to a graph: atoms labeled by element, directed bonds by bond type.

    Args:
        smiles: The molecule; several fragments, as in a salt, are one graph.
        name: The name of the argument, for messages.

    Raises:
        ArgumentError: If the SMILES has no atoms or is invalid.
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


def labeled_graphs(smiles: str) -> tuple[Graph, Graph]:
    """Return a molecule with two kinds of labels at its atoms, for `SubtreeKernel`.

    The first labels are elements. The second ones say more, as those of circular fingerprints do:
    ``CH3``, ``c`` (aromatic), ``NH3+1``. Bonds are labeled in both, single ones by nothing.

    Args:
        smiles: The molecule.

    Raises:
        ArgumentError: If the SMILES has no atoms or is invalid.
        MissingExtraError: If RDKit is not installed.

    References:
        Rogers and Hahn, Extended-Connectivity Fingerprints, J. Chem. Inf. Model. 2010.
    """
    graph = read_smiles(smiles)
    bonds: Labels = [BOND_SIGNS.get(str(kind), str(kind)) for kind in graph.edges or ()]
    atoms: Labels = [_described(atom) for atom in parse_smiles(smiles).GetAtoms()]
    return Graph(graph.nodes, graph.edge_index, bonds), Graph(atoms, graph.edge_index, bonds)


def _described(atom: Atom) -> str:
    symbol = atom.GetSymbol()
    name = symbol.lower() if atom.GetIsAromatic() else symbol
    hydrogens, charge = atom.GetTotalNumHs(), atom.GetFormalCharge()
    if hydrogens:
        name += f"H{hydrogens}" if hydrogens > 1 else "H"
    return f"{name}{charge:+d}" if charge else name


def _reason(smiles: str) -> str:
    """Return the reason why RDKit rejects a SMILES, its grammar or its chemistry."""
    from rdkit import Chem

    molecule = Chem.MolFromSmiles(smiles.strip(), sanitize=False)
    if molecule is None:
        return "It has an open bracket or ring, or an unknown atom."
    problems = [problem.Message() for problem in Chem.DetectChemistryProblems(molecule)]
    return f"{' '.join(problems[0].split()).rstrip('.')}." if problems else ""
