"""Splits of molecules: complete and disjoint, without leakage."""

from __future__ import annotations

import pytest

pytest.importorskip("rdkit")

from representer.data.molecules import canonical, scaffold, split_molecules
from representer.errors import ArgumentError, DataError

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
