"""Columns of molecules and values that nobody named: what is guessed, and what is asked for."""

from __future__ import annotations

import pytest

from representer.data.molecules.table import (
    are_numbers,
    guess_target,
    is_smiles_name,
    smiles_column,
)
from representer.data.tables import Grid
from representer.errors import DataError


def grid(*columns: str, rows: list[tuple[str, ...]] | None = None) -> Grid:
    rows = rows or []
    return Grid([*columns], rows, [*range(2, len(rows) + 2)], [], True, False, [])


@pytest.mark.parametrize(
    ("columns", "at"),
    [
        (("Compound", "Structure (SMILES)", "PCE [%]"), 1),
        (("id", "Isomeric SMILES", "smiles"), 2),  # the plain name
        (("my-smiles", "y"), 0),
    ],
)
def test_the_molecules_are_found_by_a_name_with_smiles_in_it(columns, at):
    assert smiles_column(grid(*columns), None, "t.csv")[0] == at
    assert is_smiles_name(columns[at])


def test_two_columns_of_smiles_are_not_chosen_between():
    with pytest.raises(DataError, match=r"several columns could be it \('a smiles', 'b sm"):
        smiles_column(grid("a smiles", "b smiles"), None, "t.csv")


ROWS = [("CEP-1", "C", "1.5"), ("CEP-2", "CC", ""), ("CEP-3", "CO", "1.0"), ("CEP-4", "N", "2")]


def test_a_common_name_decides_and_several_columns_are_listed():
    two = [(*row, str(k * k)) for k, row in enumerate(ROWS)]
    named = grid("name", "S", "logP", "target", rows=two)
    assert guess_target(named, 1, "t.csv")[0] == 3
    with pytest.raises(DataError, match=r"several columns could be it \('logP', 'logS'\); the"):
        guess_target(grid("name", "S", "logP", "logS", rows=two), 1, "t.csv")
    with pytest.raises(DataError, match="none looks like it"):
        guess_target(grid("name", "S", rows=[row[:2] for row in ROWS]), 1, "t.csv")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1.5", "", "2"], True),
        (["300", "320", "350"], True),  # a temperature
        (["0", "1", "1"], False),
        (["0.0", "1.0"], False),
        (["no", "yes"], False),
        (["1.5", "2", "3", "high"], True),  # a mistake, which is then reported with its line
    ],
)
def test_texts_and_zero_and_one_are_classes(cells, expected):
    assert are_numbers(cells) == expected


def test_the_column_of_molecules_is_found_by_its_cells():
    cells = (("CCO"[: 1 + k % 3], "C" * (k + 1) + "N") for k in range(9))
    rows = [(f"id{k}", *own, "[C][O]", str(k)) for k, own in enumerate(cells)]
    table = grid("Drug_ID", "kind", "Drug", "selfies", "Y", rows=rows)
    at, notes = smiles_column(table, None, "f.csv")
    assert (at, notes) == (2, ["The molecules are taken from column 'Drug'."])
    with pytest.raises(DataError, match="no column is named smiles"):
        smiles_column(grid("Drug", "Y", rows=[("C1CCO", "1"), ("CCCCN", "2")]), None, "f.csv")


ESOL = ["Compound ID", "ESOL predicted log solubility in mols per litre", "Molecular Weight",
        "measured log solubility in mols per litre", "smiles"]  # fmt: skip


def test_the_target_is_what_is_measured_and_not_a_prediction_nor_a_descriptor():
    rows = [(f"M{k}", f"{k / 3}", f"{k * k + 12}", f"{k / 7}", "C" * (k + 1)) for k in range(9)]
    for names in (
        ESOL,
        ["id", "prediction", "uncertainty", "logS", "smiles"],
        ["id", "MW", "exp error", "exp_mean [nM]", "smiles"],
        ["id", "MW", "predicted activity", "Activity (%)", "smiles"],
        ["id", "MW", "Standard Type", "pIC50", "smiles"],
        ["id", "rings", "Target ID", "IC50(nM)", "smiles"],
    ):
        assert guess_target(grid(*names, rows=rows), 4, "t.csv")[0] == 3
    with pytest.raises(DataError, match='target="pIC50"'):
        guess_target(grid("id", "MW", "pIC50", "pKi", "smiles", rows=rows), 4, "t.csv")


def test_columns_with_few_cells_or_one_value_are_no_targets():
    rows = [(f"{'C' * (k + 1)}", f"{k * k}", "nM", "1.5" if k == 7 else "") for k in range(100)]
    assert guess_target(grid("S", "IC50", "unit", "flag", rows=rows), 0, "t.csv")[0] == 1


@pytest.mark.parametrize("form", ["{},5", "{}.5 nM", "> {}.5", "${}.50", "{} %"])
def test_numbers_with_a_comma_unit_or_sign_are_a_target(form):
    rows = [(f"{'C' * (k + 1)}", form.format(k * k)) for k in range(9)]
    assert guess_target(grid("S", "IC50", rows=rows), 0, "t.csv")[0] == 1
