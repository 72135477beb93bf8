"""Molecules as inputs: SMILES, graphs, features, splits, balance."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from representer.data.molecules import BalancedDraws, parse_smiles, read_smiles
from representer.errors import ArgumentError, MissingExtraError

# Reading molecules from SMILES.


def test_a_smiles_is_heavy_atoms_and_bonds():
    item = read_smiles("C=O")
    assert item.nodes == ["C", "O"]
    assert item.edge_index.tolist() == [[0, 1], [1, 0]]
    assert item.edges == ["DOUBLE", "DOUBLE"]
    assert len(read_smiles("[Na+].[Cl-]").nodes) == 2
    assert read_smiles("C").edge_index.shape == (2, 0)


@pytest.mark.parametrize(("smiles", "message"), [
    ("C1CC", r"X is 'C1CC'; expected a valid SMILES"),
    ("", r"X is ''; expected a molecule of at least one atom"),
])  # fmt: skip
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
