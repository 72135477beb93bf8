"""Molecules as PyG graphs."""

from __future__ import annotations

import pytest
import torch

Chem = pytest.importorskip("rdkit.Chem")

from representer.data.molecules import atom_features, bond_features, molecule_graph  # noqa: E402
from representer.errors import ArgumentError  # noqa: E402


@pytest.mark.parametrize("size", [62, 82])
@pytest.mark.parametrize("smiles", ["CC(=O)Oc1ccccc1C(=O)O", "C1CC1.N#N"])
def test_nodes_are_atoms_and_each_bond_is_two_edges(smiles: str, size: int):
    molecule, graph = Chem.MolFromSmiles(smiles), molecule_graph(smiles, size)
    assert graph.x.tolist() == [atom_features(atom, size) for atom in molecule.GetAtoms()]
    found = {tuple(e): b for e, b in zip(graph.edge_index.T.tolist(), graph.edge_attr.tolist())}  # noqa: B905
    wanted = {}
    for bond in molecule.GetBonds():
        ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        wanted |= {ends: bond_features(bond), ends[::-1]: bond_features(bond)}
    assert found == wanted
    assert graph.edge_index.shape == (2, len(wanted))


def test_a_single_atom_has_no_edges_and_a_salt_is_one_graph():
    atom, salt = molecule_graph("C"), molecule_graph("[Na+].CC(=O)[O-]")
    assert (atom.x.shape, atom.edge_index.shape, atom.edge_attr.shape) == ((1, 82), (2, 0), (0, 6))
    assert atom.edge_index.dtype == torch.int64
    assert atom.edge_attr.dtype == torch.float32
    assert salt.x.shape == (5, 82)
    assert 0 not in salt.edge_index


@pytest.mark.parametrize(("smiles", "message"), [
    ("CCC(", r"smiles is 'CCC\('; expected a valid SMILES. It has an open bracket or"),
    ("O(C)(C)C", r"Explicit valence for atom # 0 O, 3, is greater than permitted\."),
    ("c1cccc1", "Can't kekulize"),
    ("", "a molecule of at least one atom"),
    (" ", "a molecule of at least one atom"),
])  # fmt: skip
def test_invalid_smiles_are_rejected_with_the_reason_of_rdkit(smiles: str, message: str):
    with pytest.raises(ArgumentError, match=message):
        molecule_graph(smiles)


def test_whitespace_around_a_smiles_is_ignored():
    assert molecule_graph(" CO ").x.equal(molecule_graph("CO").x)
