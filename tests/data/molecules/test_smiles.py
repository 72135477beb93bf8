"""Reading molecules from SMILES."""

from __future__ import annotations

import sys

import pytest

from representer.data.molecules import parse_smiles, read_smiles
from representer.errors import ArgumentError, MissingExtraError


def test_a_smiles_is_heavy_atoms_and_bonds():
    item = read_smiles("C=O")
    assert item.nodes == ["C", "O"]
    assert item.edge_index.tolist() == [[0, 1], [1, 0]]
    assert item.edges == ["DOUBLE", "DOUBLE"]
    assert len(read_smiles("[Na+].[Cl-]").nodes) == 2
    assert read_smiles("C").edge_index.shape == (2, 0)


@pytest.mark.parametrize(
    ("smiles", "message"),
    [
        ("C1CC", r"X is 'C1CC'; expected a valid SMILES"),
        ("", r"X is ''; expected a molecule of at least one atom"),
    ],
)
def test_invalid_molecules_are_rejected(smiles, message):
    with pytest.raises(ArgumentError, match=message):
        read_smiles(smiles, "X")


def test_without_rdkit_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(MissingExtraError, match=r'needs rdkit: pip install "representer\[graph\]"'):
        read_smiles("C")


def test_a_molecule_of_100000_characters_is_refused_without_parsing():
    with pytest.raises(ArgumentError, match="has 100,000 characters; at most 10,000 are parsed"):
        parse_smiles("C1CC1" * 20_000)
