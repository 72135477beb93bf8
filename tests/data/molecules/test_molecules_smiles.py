"""Molecules of SMILES: reading, graphs, features, descriptors, splits."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch

from representer.data.molecules import (
    ATOM_FEATURES,
    BOND_FEATURES,
    BalancedDraws,
    atom_features,
    atom_pairs,
    bond_features,
    canonical,
    descriptor_names,
    descriptors,
    labeled_graphs,
    molecule_graph,
    molecule_views,
    parse_smiles,
    read_smiles,
    scaffold,
    split_molecules,
    torsions,
)
from representer.errors import ArgumentError, DataError, MissingExtraError
from representer.estimators import MoleculeRegressor

Chem = pytest.importorskip("rdkit.Chem")


# Molecules as inputs: SMILES, graphs, features, splits, balance.

# Reading molecules from SMILES.


def test_a_smiles_is_heavy_atoms_and_bonds():
    item = read_smiles("C=O")
    assert item.nodes == ["C", "O"]
    assert item.edge_index.tolist() == [[0, 1], [1, 0]]
    assert item.edges == ["DOUBLE", "DOUBLE"]
    assert len(read_smiles("[Na+].[Cl-]").nodes) == 2
    assert read_smiles("C").edge_index.shape == (2, 0)


def test_without_rdkit_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(MissingExtraError, match=r'needs rdkit: pip install "representer\[graph\]"'):
        read_smiles("C")


def test_a_molecule_of_100000_characters_is_refused_without_parsing():
    with pytest.raises(ArgumentError, match="has 100,000 characters; at most 10,000 are parsed"):
        parse_smiles("C1CC1" * 20_000)


# L17's resampling: uniform over bins, and in turn within a bin.


VALUES = [0.01, 0.02, 0.03, 0.04, 0.049, 0.06, 0.11, 0.12, -0.01]  # bins of 5, 1, 2 and 1


def test_bins_are_drawn_uniformly_and_their_examples_in_turn():
    draws = BalancedDraws(VALUES, 0.05)
    assert draws.bins == 4
    found = [i for e in range(1000) for i in draws.epoch(e)]
    assert len(found) == 1000 * len(VALUES)
    counts = Counter(found)
    per_bin = [sum(counts[i] for i in group) for group in (range(5), [5], [6, 7], [8])]
    assert np.allclose(per_bin, len(found) / 4, rtol=0.06)  # 4 standard deviations
    assert max(counts[i] for i in range(5)) - min(counts[i] for i in range(5)) <= 1
    of_first = [i for i in found if i < 5]
    assert all(of_first[k] == of_first[k + 5] for k in range(len(of_first) - 5))


def test_the_lower_edge_belongs_to_a_bin():
    assert BalancedDraws([0.0, 0.25, 0.49], 0.5).bins == 1
    assert BalancedDraws([0.0, 0.5], 0.5).bins == 2


@pytest.mark.parametrize(
    ("values", "width", "name"), [([], 1, "values"), ([np.nan], 1, "values"), ([1.0], 0, "width")]
)
def test_invalid_values_and_widths_are_rejected(values, width, name):
    with pytest.raises(ArgumentError, match=name):
        BalancedDraws(values, width)


def _complete(size: int) -> str:
    """Return metal atoms that are all bonded to each other."""
    bonds = {pair: 10 + k for k, pair in enumerate(combinations(range(size), 2))}
    return ".".join(
        "[Fe]" + "".join(f"%({bond})" for pair, bond in bonds.items() if atom in pair)
        for atom in range(size)
    )


@pytest.mark.parametrize("smiles", [_complete(11), _complete(12)])
def test_bonds_as_no_molecule_has_them_are_refused(smiles: str):
    with pytest.raises(ArgumentError, match=r"paths of three or four bonds; at most 30,000"):
        parse_smiles(smiles)


def test_walks_that_never_turn_back_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("representer.data.molecules.smiles.MOST_PATHS", 0)
    with pytest.raises(ArgumentError, match=r"It has 6 paths"):
        parse_smiles("c1ccccc1")  # each of three bonds has one place more in a ring of six
    with pytest.raises(ArgumentError, match=r"It has 2,625 paths"):
        parse_smiles(_complete(7))
    assert parse_smiles("CCO").GetNumAtoms() == 3


def test_a_molecule_of_many_atoms_is_parsed():
    assert parse_smiles("C1CC1" * 300).GetNumAtoms() == 900
    assert parse_smiles("CC(=O)N" * 200).GetNumAtoms() == 800


def test_atoms_that_cannot_be_are_refused():
    with pytest.raises(ArgumentError, match=r"'\[CH99999\]C'; expected a valid SMILES. It has an"):
        parse_smiles("[CH99999]C")


# Molecules as PyG graphs.


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


# L17's lists of atom and bond features, entry by entry.


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


# Views, atom pairs, torsions and descriptors of a molecule.


@pytest.mark.parametrize(
    ("first", "second"),
    [("C[C@H](F)O", "C[C@@H](F)O"), ("F/C=C/F", "F/C=C\\F")],
    ids=["enantiomers", "cis and trans"],
)
def test_stereoisomers_have_other_labels_and_are_unequal(first, second):
    described = [labeled_graphs(one)[1] for one in (first, second)]
    assert described[0].nodes != described[1].nodes or described[0].edges != described[1].edges
    assert labeled_graphs(first)[0].nodes == labeled_graphs(second)[0].nodes
    kernel = MoleculeRegressor()._new_kernel().fit([first, second])
    assert kernel([first], [second])[0, 0] < 1 - 1e-3
    assert kernel([first], [first])[0, 0] == pytest.approx(1)


def test_two_writings_of_a_molecule_are_equal():
    kernel = MoleculeRegressor()._new_kernel().fit(["C[C@H](F)O", "CCO"])
    assert kernel(["O[C@H](C)F"], ["C[C@H](F)O"])[0, 0] == pytest.approx(1)
    assert kernel(["OCC"], ["CCO"])[0, 0] == pytest.approx(1)


def test_pairs_and_torsions_name_their_atoms():
    assert sorted(atom_pairs("CCO")) == [
        ("CH2 1 CH3", (0, 1)), ("CH2 1 OH", (1, 2)), ("CH3 2 OH", (0, 2)),
    ]  # fmt: skip
    assert atom_pairs("[Na+].[Cl-]") == []  # which no bonds connect
    assert torsions("CCCO") == [("CH3-CH2-CH2-OH", (0, 1, 2, 3))]
    assert torsions("CCO") == torsions("C") == []
    assert len(torsions("C1CCCCC1")) == 6


def test_the_third_view_says_what_atoms_bind_to():
    features = molecule_views("Oc1ccccc1Cl")[2].nodes
    assert features[0] == "donor+acceptor"
    assert features[1] == "aromatic"
    assert features[-1] == "halogen"


def test_descriptors_have_a_name_each():
    names, found = descriptor_names(), descriptors("CCO")
    assert len(names) == len(set(names)) == len(found)
    assert found[names.index("exactmw")] == pytest.approx(46.042, abs=1e-3)
    assert found[names.index("NumHBD")] == 1
    assert np.isfinite(found).all()


# Splits of molecules: complete and disjoint, without leakage.

RINGS = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CC1", "c1ccsc1", "C1CCNC1", "c1ccc2ccccc2c1"]
MOLECULES = [
    *(f"{'C' * n}{ring}" for k, ring in enumerate(RINGS) for n in range(1, 12 - k)),
    *("C" * n for n in range(1, 9)),
]
SHARES = (0.6, 0.2, 0.2)


@pytest.mark.parametrize("kind", ["random", "scaffold"])
def test_parts_are_disjoint_and_complete_with_the_requested_fractions(kind):
    parts = split_molecules(MOLECULES, SHARES, kind=kind)
    assert sorted(i for part in parts for i in part) == list(range(len(MOLECULES)))
    assert all(part == sorted(part) for part in parts)
    for part, share in zip(parts, SHARES, strict=True):
        assert abs(len(part) - share * len(MOLECULES)) <= (2 if kind == "random" else 10)


def test_no_scaffold_is_in_two_parts_and_the_first_has_the_largest():
    parts = split_molecules(MOLECULES, SHARES, kind="scaffold")
    kinds = [{scaffold(MOLECULES[i]) for i in part} for part in parts]
    assert sum(map(len, kinds)) == len(set().union(*kinds)) == len(RINGS) + 1
    assert "c1ccccc1" in kinds[0]
    assert split_molecules(MOLECULES, SHARES, 1, "scaffold") == parts


def test_a_scaffold_can_fill_a_part_exactly():
    molecules = ["c1ccccc1", "Cc1ccccc1", "C1CC1", "C1CCC1"]  # groups of 2, 1 and 1
    assert split_molecules(molecules, (0.5, 0.5), kind="scaffold") == ([0, 1], [2, 3])
    # the second group no longer fits into the first part, the third does
    molecules = ["c1ccccc1", "Cc1ccccc1", "CCc1ccccc1", "C1CC1", "CC1CC1", "C1CCC1"]
    assert split_molecules(molecules, (2 / 3, 1 / 3), kind="scaffold") == ([0, 1, 2, 5], [3, 4])


def test_the_last_part_of_a_sorted_table_has_all_kinds_of_rare_scaffolds():
    rings = [f"C1{'C' * size}{atom}1" for atom in "NCO" for size in range(2, 30)]
    _, test = split_molecules(rings, (0.8, 0.2), kind="scaffold")
    assert {rings[row][-2] for row in test} == set("NCO")
    _, again = split_molecules(rings[::-1], (0.8, 0.2), kind="scaffold")
    assert {rings[::-1][row] for row in again} == {rings[row] for row in test}


def test_equivalent_smiles_are_in_one_part():
    twice = [*MOLECULES, *(canonical(s) for s in MOLECULES), "OCC", "CCO", "C(O)C"]
    parts = split_molecules(twice, SHARES)
    where = {i: k for k, part in enumerate(parts) for i in part}
    n = len(MOLECULES)
    assert all(where[i] == where[i + n] for i in range(n))
    assert where[2 * n] == where[2 * n + 1] == where[2 * n + 2]


def test_the_seed_determines_a_random_split():
    first = split_molecules(MOLECULES, SHARES, 0)
    assert first == split_molecules(MOLECULES, SHARES, 0)
    assert first != split_molecules(MOLECULES, SHARES, 1)


def test_a_scaffold_has_no_side_chains():
    assert scaffold("CCCc1ccccc1O") == "c1ccccc1"
    assert scaffold("CCO") == ""


def test_invalid_splits_are_rejected():
    with pytest.raises(DataError, match=r"3 molecules in 1 groups cannot be divided"):
        split_molecules(["CCO", "OCC", "CCO"], SHARES)
    with pytest.raises(DataError, match="another split"):
        split_molecules(["CCO", "CO", "CCN"], SHARES, kind="scaffold")
    with pytest.raises(ArgumentError, match="sum to 1"):
        split_molecules(MOLECULES, (0.5, 0.2))
    for fractions in ((1.0, 0.0), (1.5, -0.5), ()):
        with pytest.raises(ArgumentError, match="positive numbers that sum to 1"):
            split_molecules(MOLECULES, fractions)
    with pytest.raises(ArgumentError, match="'random' or 'scaffold'"):
        split_molecules(MOLECULES, SHARES, kind="butina")  # type: ignore[arg-type]
