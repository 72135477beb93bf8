"""Reading of molecules and targets from a file: valid, dropped and invalid rows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rdkit")

from representer.data.molecules import invalid_reason, read_molecules
from representer.errors import ArgumentError, DataError


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
