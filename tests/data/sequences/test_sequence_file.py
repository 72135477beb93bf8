"""Sequences in FASTA, FASTQ and GenBank files, and tables with a row for each or for each token."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from representer.data.sequences import read_sequence_file
from representer.errors import DataError


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


GENBANK = """LOCUS       {name} 8 bp DNA
FEATURES             Location/Qualifiers
                     /label="{label}"
ORIGIN
        1 {first}
       61 {rest}
//
"""
FORMS = {
    "a.fasta": ">s1 label=x about\nACGT\nACGT\n; remark\n\n>s2 class=y\nttga\n",
    "words.fa": ">s1 x\n1 ACGT ACGT\n>s2 y\nttga\n",
    "bars.faa": ">s1|x\nACGTACGT\n>s2|y\nttga\n",
    "a.fastq": "@s1 label=x\nACGT\nACGT\n+\n@@@@\n@@@@\n@s2 label=y\nttga\n+s2\n+++@\n",
    "a.gb": GENBANK.format(name="s1", label="x", first="ACGT A", rest="CGT")
    + GENBANK.format(name="s2", label="y", first="tt", rest="ga"),
    "a.csv": "id,seq,label\ns1,ACGTACGT,x\ns2,ttga,y\n",
    "named.csv": "id,letters,kind,label\ns1,ACGTACGT,1,x\ns2,ttga,2,y\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_holds_the_same_sequences(tmp_path, name):
    options = {"sequence": "letters"} if name == "named.csv" else {}
    found = read_sequence_file(written(tmp_path, name, FORMS[name]), **options)
    assert found.sequences == ["ACGTACGT", "ttga"]
    assert found.labels == ["x", "y"]
    assert found.names == ["s1", "s2"]


def test_compressed_files_and_other_keys_are_read(tmp_path):
    path = tmp_path / "a.fa.gz"
    path.write_bytes(gzip.compress(b">s1 label=x site=p\nAC\n>s2 label=y site=q\nGT\n"))
    assert read_sequence_file(path).labels == ["x", "y"]
    assert read_sequence_file(path, label="site").labels == ["p", "q"]


EVENTS = [["home", "cart", "buy"], ["home"]]
LISTS = {
    "blanks.csv": "events,label\nhome cart buy,x\nhome,y\n",
    "commas.csv": 'sequence,label\n"home, cart,buy",x\nhome,y\n',
    "lists.jsonl": '{"sequence": ["home", "cart", "buy"], "label": "x"}\n'
    '{"sequence": ["home"], "label": "y"}\n',
    "long.csv": "id,time,event,label\na,2,cart,x\nb,1,home,y\na,1,home,x\na,10,buy,x\n",
}


@pytest.mark.parametrize("name", LISTS)
def test_tokens_are_listed(tmp_path, name):
    found = read_sequence_file(written(tmp_path, name, LISTS[name]))
    assert found.sequences == EVENTS
    assert found.labels == ["x", "y"]


def test_the_columns_of_tokens_can_be_named(tmp_path):
    text = "user,rank,page,age,label\nu,2,b,1,x\nv,1,c,1,y\nu,1,a,1,x\n"
    path = written(tmp_path, "a.csv", text)
    found = read_sequence_file(path, sequence="page", id="user", order="rank")
    assert found.sequences == [["a", "b"], ["c"]]
    assert read_sequence_file(path, sequence="page", id="user", order="age").sequences[0] == [*"ba"]
    assert found.names == ["u", "v"]
    assert [row[0] for row in found.table.rows] == ["u", "v"]


def test_the_only_column_of_letters_holds_the_sequences(tmp_path):
    path = written(tmp_path, "a.csv", "read,gene,label\nACGTACGT,TRBV,x\nGGGTACGA,TRAJ,y\n")
    found = read_sequence_file(path)
    assert found.sequences == ["ACGTACGT", "GGGTACGA"]
    assert found.notes == ["The sequences are in column 'read'."]
    other = "alpha,beta,epitope\nACGTACGT,ACGGACGA,x\nGGGTACGA,AAGTACGT,y\n"
    path = written(tmp_path, "b.csv", other)
    assert read_sequence_file(path, sequence="beta").labels == ["x", "y"]
    path = written(tmp_path, "b.csv", "".join(f"ACGTACG{'AC' * k},{k % 2}\n" for k in range(9)))
    assert read_sequence_file(path).labels == [str(k % 2) for k in range(9)]


def test_a_guessed_header_names_a_remedy_that_exists(tmp_path):
    path = written(tmp_path, "a.csv", "read,bound\nACGTACGT,x\nGGGTACGA,y\n")
    (note, *_) = read_sequence_file(path).notes
    assert note.endswith("put a row of names above it, or pass --header false with texts.")


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.fa", "ACGT\n", "line 1.*before the first >"),
    ("a.fq", "@s label=x\nACGT\n+\nab\n", "after 2 of 4 qualities"),
    ("a.fq", "ACGT\n", "starts with @"),
    ("a.fa", ">a label=x\nAC\n>b\nGT\n", "line 3.*has no label"),
    ("a.fa", ">a\nAC\n>b\nGT\n", "the sequences have no labels"),
    ("a.csv", "a,b,label\nx,y,z\n", "cannot tell which column"),
    ("a.csv", "id,t,event,label\na,0,e,x\na,1,e,y\n", "'a' has several labels"),
    ("a.csv", "id,event,label\na,e,x\n,e,x\n,e,x\n", "line 3.*the cell is empty"),
])  # fmt: skip
def test_errors_name_the_line(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message):
        read_sequence_file(written(tmp_path, name, text))


def test_options_of_tables_are_refused_for_other_files(tmp_path):
    path = written(tmp_path, "a.fa", ">a x\nAC\n>b y\nGT\n")
    with pytest.raises(DataError, match="--id name names a column"):
        read_sequence_file(path, id="name")


def test_the_only_other_column_is_the_label_where_one_is_needed(tmp_path):
    path = written(tmp_path, "a.csv", "id,sequence,bound\n0,ACGT,1\n1,AAGT,0\n")
    read = read_sequence_file(path)
    assert (read.labels, read.label_column) == (["1", "0"], "bound")
    assert "The label is taken from column 'bound'." in read.notes
    assert read_sequence_file(path, require_labels=False).labels == [None, None]
    two = written(tmp_path, "b.csv", "id,sequence,bound,score\n0,ACGT,1,3\n")
    with pytest.raises(DataError, match=r"could be it \('bound', 'score'\).*label=\"bound\""):
        read_sequence_file(two)
    one = written(tmp_path, "c.csv", "sequence,mutations,measured fitness\nACGT,2,0.4\n")
    assert read_sequence_file(one).labels == ["0.4"]


def test_rows_that_may_be_tokens_are_noted(tmp_path):
    rows = [f"c{k // 4},{'buy' if k % 3 else 'home'},{k // 4 % 2}" for k in range(16)]
    path = tmp_path / "events.csv"
    path.write_text("\n".join(["customer,event,label", *rows]))
    events = read_sequence_file(path, sequence="event", label="label")
    assert any("name the column of its sequence with --id" in note for note in events.notes)
    events = read_sequence_file(path, sequence="event", label="label", id="customer")
    assert len(events.sequences) == 4
    assert not any("--id" in note for note in events.notes)
