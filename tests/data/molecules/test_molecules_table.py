"""Molecules and targets of files: valid, dropped and invalid rows, columns, formats."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem

from representer.data.molecules import invalid_reason, read_molecules
from representer.data.molecules.table import (
    are_numbers,
    guess_target,
    is_smiles_name,
    read_molecule_grid,
    smiles_column,
)
from representer.data.tables import Grid
from representer.errors import ArgumentError, DataError

pytest.importorskip("rdkit")


# Reading of molecules and targets from a file: valid, dropped and invalid rows.


def write(folder, text: str, name: str = "data.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_keep_their_order_and_lines_and_a_missing_value_is_nan(tmp_path):
    path = write(tmp_path, "id,smiles,a,b\n1, CCO ,1.5,2\n\n2,C,,nan\n3,[Na+].[Cl-],NA,-3e1\n")
    table = read_molecules(path, target="a,b")
    assert table.smiles == ["CCO", "[Na+].[Cl-]"]
    assert table.lines == [2, 5]
    np.testing.assert_array_equal(table.numbers(), [[1.5, 2], [np.nan, -30]])
    assert [(row.line, row.reason) for row in table.dropped] == [
        (3, "blank line"),
        (4, "no target"),
    ]


def test_without_a_target_all_molecules_are_kept(tmp_path):
    table = read_molecules(write(tmp_path, "name;SMILES\nx;C\ny;CC\n"))
    assert (table.smiles, table.smiles_column) == (["C", "CC"], "SMILES")
    assert table.numbers().shape == (2, 0)


def test_a_column_name_can_contain_commas(tmp_path):
    table = read_molecules(write(tmp_path, 'smi,"a, b"\nC,1\n'), target="a, b")
    assert table.target_columns == ("a, b",)


BAD = [
    ("smiles,y\nCC,1\nCC(,2\n", r"line 3, column 'smiles': invalid SMILES 'CC\(': It has an open"),
    ("smiles,y\nCC,1\n,2\n", r"line 3, column 'smiles': empty SMILES\. .* skip_invalid"),
    ("smiles,y\nC(,1\nO(,2\nN(,2\n", r"line 2, .*; 2 more rows \(lines 3, 4\)"),
    ("smiles,y\nC(,1\nO,2\nN(,2\n", r"line 2, .*; 1 more row \(line 4\)"),
    (
        "smiles,y\nC,1\nCCO CCCCCC,2\n",
        r"line 3, .*invalid SMILES 'CCO CCCCCC': It contains whitespace",
    ),
    ("smiles,y\nC,1\nCCO\tCC,2\n", r"line 3, .*invalid SMILES 'CCO\\tCC': It contains whitespace"),
    ("smiles,y\nCC,1_000\n", r"line 2, column 'y': '1_000' is not a finite number in plain"),
    ("smiles,y\nCC,١٢\n", r"line 2, column 'y': '١٢' is not a finite number in plain"),
    ("smiles,y\nCC,high\n", r"line 2, column 'y': 'high' is not a finite number"),
    ("smiles,y\nCC,1\nCC,inf\n", r"line 3, column 'y': 'inf' is not a finite number"),
    ("smiles,z\nCC,1\n", r"there is no column 'y'; the columns are 'smiles', 'z'"),
    ("molecule,y\nCC,1\n", r"no column is named smiles; the columns are 'molecule', 'y'"),
    ("", "empty|no text"),
    ("smiles,y\n", "a header and no"),
    ("smiles,y\nCC,\n", r"none of the 1 rows can be used\. The first: line 2, no target"),
    ("smiles,y\nCC,1,2\n", r"line 2: too many cells: 3 instead of 2"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD)
def test_errors_for_invalid_files_name_row_value_and_fix(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as caught:
        read_molecules(write(tmp_path, text), target="y").numbers()
    assert "data.csv" in str(caught.value)


def test_many_invalid_rows_are_counted_and_the_first_lines_named(tmp_path):
    path = write(tmp_path, "smiles\n" + "C(\n" * 9)
    with pytest.raises(DataError, match=r"8 more rows \(lines 3, 4, 5, 6, 7, \.\.\.\)"):
        read_molecules(path)


def test_up_to_five_further_invalid_rows_are_all_named(tmp_path):
    path = write(tmp_path, "smiles\n" + "C(\n" * 6)
    with pytest.raises(DataError, match=r"5 more rows \(lines 3, 4, 5, 6, 7\)"):
        read_molecules(path)


def test_invalid_rows_are_skipped_on_request_and_listed(tmp_path):
    path = write(tmp_path, "smiles,y\nCC(,1\nCC,2\n,3\n")
    table = read_molecules(path, target="y", skip_invalid=True)
    assert (table.smiles, table.lines) == (["CC"], [3])
    assert [row.line for row in table.dropped] == [2, 4]
    assert "invalid SMILES 'CC('" in table.dropped[0].reason
    assert table.dropped[1].reason == "empty SMILES"
    with pytest.raises(DataError, match=r"none of the 1 rows can be used. The first: line 2, inv"):
        read_molecules(write(tmp_path, "smiles\nC(\n", "none.csv"), skip_invalid=True)


@pytest.mark.parametrize("target", ["y,y", "smiles", "y,smiles"])
def test_a_column_is_used_once(tmp_path, target):
    with pytest.raises(ArgumentError, match="columns other than the SMILES, each once"):
        read_molecules(write(tmp_path, "smiles,y\nC,1\n"), target=target)


def test_two_columns_of_molecules_are_rejected(tmp_path):
    with pytest.raises(ArgumentError, match="one column"):
        read_molecules(write(tmp_path, "a,b\nC,C\n"), "a,b")


def test_numbers_in_jsonl_are_read(tmp_path):
    path = write(tmp_path, '{"smiles": "C", "y": 1.5}\n{"smiles": "CC", "y": null}\n', "m.jsonl")
    assert read_molecules(path, target="y").numbers().tolist() == [[1.5]]


def test_the_reason_is_empty_for_a_molecule():
    assert invalid_reason("CCO") == ""
    assert invalid_reason("  ") == "empty SMILES"


# Columns of molecules and values that nobody named: what is guessed, and what is asked for.


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


# SDF files and files of SMILES are tables of molecules.

CHLORINE = """
  two bonds

  3  2  0  0  0  0  0  0  0  0999 V2000
    0.0000    0.0000    0.0000 C   0  0
    1.0000    0.0000    0.0000 Cl  0  0
    2.0000    0.0000    0.0000 C   0  0
  1  2  1  0
  2  3  1  0
M  END
"""


def write_sdf(path: Path, molecules: list[str], **properties: list[str]) -> Path:
    """Write an SDF file with RDKit."""
    with Chem.SDWriter(str(path)) as writer:
        for k, one in enumerate(molecules):
            molecule = Chem.MolFromSmiles(one)
            molecule.SetProp("_Name", f"molecule {k}")
            for name, values in properties.items():
                if values[k]:
                    molecule.SetProp(name, values[k])
            writer.write(molecule)
    return path


def test_an_sdf_file_is_the_table_of_its_structures_and_properties(tmp_path):
    smiles = ["CCO", "c1ccccc1[N+](=O)[O-]", "F[C@H](Cl)Br", "C[13CH3]", "[Na+].[Cl-]"]
    path = write_sdf(tmp_path / "a.sdf", smiles, logp=["1", "", "2.5", "-1", "0"], smiles=["?"] * 5)
    table = read_molecules(path, target="logp")
    assert table.smiles == [Chem.CanonSmiles(smiles[k]) for k in (0, 2, 3, 4)]
    assert table.targets == [("1",), ("2.5",), ("-1",), ("0",)]
    text = path.read_text().splitlines()
    assert [text[line - 1] for line in table.lines] == [f"molecule {k}" for k in (0, 2, 3, 4)]
    assert table.dropped[0].reason == "no target"
    packed = tmp_path / "b.SDF.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_molecules(packed, "Drug", "logp").smiles == table.smiles


def test_a_property_has_lines_and_the_last_structure_needs_no_end(tmp_path):
    (tmp_path / "a.sdf").write_text(
        Chem.MolToMolBlock(Chem.MolFromSmiles("CO"))
        + ">  25  <note> (x)\none\ntwo\n\n> <y>\n3\n\n$$$$\n"
        + Chem.MolToMolBlock(Chem.MolFromSmiles("CN"), forceV3000=True).replace("\n", "\r\n")
        + "> <y>\r\n4\r\n"
    )
    table = read_molecules(tmp_path / "a.sdf", target="note,y")
    assert table.smiles == ["CO", "CN"]
    assert table.targets == [("one\ntwo", "3"), ("", "4")]


def test_a_wrong_structure_is_named_with_its_line_and_reason(tmp_path):
    valid = Chem.MolToMolBlock(Chem.MolFromSmiles("CO")) + "$$$$\n"
    path = tmp_path / "a.sdf"
    path.write_text(valid + CHLORINE + "$$$$\n" + "\n\n\nnothing\n$$$$\n$$$$\n")
    line = valid.count("\n") + 1
    with pytest.raises(DataError, match=rf"line {line}, .*invalid SMILES 'CClC': Explicit valence"):
        read_molecules(path)
    table = read_molecules(path, skip_invalid=True)
    assert (table.smiles, len(table.dropped)) == (["CO"], 3)
    unreadable = "the lines of its atoms or bonds cannot be read"
    assert [row.reason for row in table.dropped[1:]] == [unreadable] * 2
    path.write_text("\n \n")
    with pytest.raises(DataError, match="contains no molecules"):
        read_molecules(path)


@pytest.mark.parametrize("head", ["", "SMILES Name\n"])
def test_a_file_of_smiles_has_a_molecule_in_each_line(tmp_path, head):
    (tmp_path / "a.smi").write_text(f"{head}CCO ethyl alcohol\n\nCC(=O)O\t2\nC\n")
    table = read_molecules(tmp_path / "a.smi", target="name")
    assert table.smiles == ["CCO", "CC(=O)O"]
    assert table.targets == [("ethyl alcohol",), ("2",)]
    first = 1 + len(head.splitlines())
    assert table.lines == [first, first + 2]
    assert [(row.line, row.reason) for row in table.dropped] == [
        (first + 1, "blank line"), (first + 3, "no target"),
    ]  # fmt: skip


def test_properties_that_nearly_all_structures_lack_are_refused_before_they_fill_the_memory(
    tmp_path,
):
    path = tmp_path / "a.sdf"
    record = "\n\n\nM  END\n> <p{}>\n1\n\n$$$$\n"
    path.write_text("".join(record.format(k) for k in range(1000)))
    assert len(read_molecule_grid(path, None, None)[0].columns) == 1001
    path.write_text("".join(record.format(k) for k in range(2000)))
    with pytest.raises(DataError, match="so nearly all are empty"):
        read_molecule_grid(path, None, None)
