"""Views, atom pairs, torsions and descriptors of a molecule."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rdkit")

from representer.data.molecules import (
    atom_pairs,
    descriptor_names,
    descriptors,
    labeled_graphs,
    molecule_views,
    torsions,
)
from representer.estimators import MoleculeRegressor


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
