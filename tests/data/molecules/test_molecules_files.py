"""SDF files and files of SMILES are tables of molecules."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from rdkit import Chem

from representer.data.molecules import read_molecules
from representer.data.molecules.table import read_molecule_grid
from representer.errors import DataError

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


def write(path: Path, molecules: list[str], **properties: list[str]) -> Path:
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
    path = write(tmp_path / "a.sdf", smiles, logp=["1", "", "2.5", "-1", "0"], smiles=["?"] * 5)
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
