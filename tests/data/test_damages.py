"""Every reader against files that are none of its own: an error that names the file in one line."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rdkit")
pytest.importorskip("mne")

from representer.data.graphs import read_graph_file
from representer.data.molecules import read_molecules
from representer.data.sequences import read_sequence_file
from representer.data.series import read_series_file
from representer.data.signals import read_recordings
from representer.data.text import read_table, read_vectors
from representer.errors import DataError

READERS: dict[Callable[..., Any], str] = {  # the names of files that it reads
    read_table: "a.csv a.tsv a.txt a.jsonl a.json a.parquet a.xlsx a.ods a.csv.gz",
    read_molecules: "a.csv a.sdf a.smi a.parquet a.sdf.gz",
    read_graph_file: "a.jsonl a.json a.txt a.jsonl.gz",
    read_recordings: "a.npz a.mat a.fif a.edf a.bdf a.set a.vhdr a-epo.fif recordings.csv",
    read_series_file: "a.ts a.tsv a.csv a.npz a.jsonl",
    read_sequence_file: "a.fa a.fasta a.fastq a.gb a.csv a.jsonl a.fa.gz",
    read_vectors: "a.txt a.npz a.bin a.txt.gz",
}
DAMAGES: dict[str, bytes | None] = {  # what lies there; nothing for None
    "missing": None,
    "empty": b"",
    "noise": b"\x89PNG\r\n\0\0\n\n" + bytes(range(256)) * 3,
    "archive that is none": b"PK\x03\x04 and no more",
    "half of a compressed file": gzip.compress(b"text,label\ngood,1\n" * 99)[:40],
}
CASES = [(read, name) for read, names in READERS.items() for name in names.split()]


@pytest.mark.filterwarnings("ignore::RuntimeWarning:mne")  # which names a suffix that it dislikes
@pytest.mark.parametrize("damage", [*DAMAGES, "folder"])
@pytest.mark.parametrize(("read", "name"), CASES, ids=[f"{r.__name__} {n}" for r, n in CASES])
def test_a_damaged_file_is_one_line_that_names_it(read, name: str, damage: str, tmp_path: Path):
    path, content = tmp_path / name, DAMAGES.get(damage)
    if damage == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ("there is no such file" in str(caught.value)) == (damage == "missing")
