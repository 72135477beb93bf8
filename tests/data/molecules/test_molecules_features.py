"""L17's lists of atom and bond features, entry by entry."""

from __future__ import annotations

import pytest

Chem = pytest.importorskip("rdkit.Chem")

from representer.data.molecules import (  # noqa: E402
    ATOM_FEATURES,
    BOND_FEATURES,
    atom_features,
    bond_features,
)
from representer.errors import ArgumentError  # noqa: E402


def on(smiles: str, size: int, at: int = 0) -> list[str]:
    """Return the names of the features that are 1."""
    values = atom_features(Chem.MolFromSmiles(smiles).GetAtomWithIdx(at), size)
    assert len(values) == size
    assert set(values) <= {0.0, 1.0}
    return [name for name, value in zip(ATOM_FEATURES[size], values, strict=True) if value]


def test_the_lists_have_the_length_and_the_order_of_the_code():
    assert [len(ATOM_FEATURES[size]) for size in (62, 82)] == [62, 82]
    for size, elements in ((62, 44), (82, 63)):
        assert ATOM_FEATURES[size][:9] == ("C", "N", "O", "S", "F", "Si", "P", "Cl", "Br")
        assert ATOM_FEATURES[size][elements - 1 : elements + 1] == ("other", "neighbors 0")
    assert ATOM_FEATURES[62][42] == ATOM_FEATURES[82][42] == "Pb"
    assert ATOM_FEATURES[82][43:62] == (
        "W", "Ru", "Nb", "Re", "Te", "Rh", "Tc", "Ba", "Bi", "Hf", "Mo", "U", "Sm", "Os", "Ir",
        "Ce", "Gd", "Ga", "Cs",
    )  # fmt: skip
    assert len(set(ATOM_FEATURES[82])) == 82


def test_an_atom_has_its_element_neighbors_hydrogens_and_valences():
    assert on("CCO", 62, 1) == ["C", "neighbors 2", "hydrogens 2", "implicit valence 2"]
    assert on("CCO", 82, 1) == ["C", "neighbors 2", "explicit valence 2", "implicit valence 2"]
    assert on("c1cc[nH]c1", 62, 3) == [
        "N", "neighbors 2", "hydrogens 1", "implicit valence 0", "aromatic",
    ]  # fmt: skip
    assert on("c1cc[nH]c1", 82, 3) == [
        "N", "neighbors 2", "explicit valence 3", "implicit valence 0", "aromatic",
    ]  # fmt: skip


@pytest.mark.parametrize(("smiles", "names"), [
    ("CC", ["single"]),
    ("C=C", ["double"]),
    ("C#N", ["triple"]),
    ("c1ccccc1", ["aromatic", "conjugated", "in a ring"]),
    ("C1CC1", ["single", "in a ring"]),
])  # fmt: skip
def test_a_bond_has_its_type_conjugation_and_ring(smiles: str, names: list[str]):
    values = bond_features(Chem.MolFromSmiles(smiles).GetBondWithIdx(0))
    assert [n for n, value in zip(BOND_FEATURES, values, strict=True) if value] == names


def test_unknown_feature_lists_are_rejected():
    with pytest.raises(ArgumentError, match=r"features is 70; expected 62 or 82"):
        atom_features(Chem.MolFromSmiles("C").GetAtomWithIdx(0), 70)
