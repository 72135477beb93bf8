"""Arrays in valid and damaged .npz files."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from representer.data import splits
from representer.data.graphs import read_graph_tables, read_jsonl_graphs
from representer.data.molecules import read_molecules
from representer.data.signals import read_recordings
from representer.data.splits import digest_of, digest_of_graph
from representer.data.tables import files
from representer.data.tables.files import DEFLATE_RATIO, read_arrays
from representer.data.text import read_table
from representer.data.text.words import Stored
from representer.errors import DataError


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "a.npz"


def header(shape: object, descr: str = "<f8", *, major: int = 1) -> bytes:
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}\n".encode()
    width = 2 if major == 1 else 4
    return b"\x93NUMPY" + bytes((major, 0)) + len(text).to_bytes(width, "little") + text


def archive(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("X.npy", content)
    return path


@pytest.mark.parametrize(("content", "problem"), [
    (header((2**40,)) + bytes(16), r"the array X declares 8,796,093,022,208 bytes and holds 16"),
    (header((3,)) + bytes(16), "declares 24 bytes and holds 16"),
    (header((1,)) + bytes(16), "declares 8 bytes and holds 16"),
    (header((-1, -2)) + bytes(16), "declares 16 bytes and holds 16"),
    (header((2**62,), "<U0"), "declares 0 bytes"),
    (header((2,), "|O") + bytes(16), "holds objects"), (header("two"), "cannot be read"),
    (b"\x93NUMPY\x09\x00", r"version \(9, 0\)"), (b"", "cannot be read"),
])  # fmt: skip
def test_a_declared_size_larger_than_the_data_is_rejected(path, content, problem):
    with pytest.raises(DataError, match=problem):
        read_arrays(archive(path, content), ["X"])


def test_version_two_of_the_format_is_read(path):
    read, _ = read_arrays(archive(path, header((2,), major=2) + bytes(16)), ["X"])
    assert read["X"].tolist() == [0, 0]


def test_an_entry_beyond_the_expansion_limit_of_deflate_is_rejected(path):
    held = header((2**24,)) + bytes(16)
    archive(path, held)
    content = bytearray(path.read_bytes())
    size = (DEFLATE_RATIO * len(held) + 1).to_bytes(4, "little")
    for magic, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = content.index(magic) + offset
        content[at : at + 4] = size
    path.write_bytes(content)
    with pytest.raises(DataError, match="declares more bytes than it can hold"):
        read_arrays(path, ["X"])


def test_pickles_are_never_loaded(path):
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match=r"holds objects"):
        read_arrays(archive(path, buffer.getvalue()), ["X"])


def test_arrays_expand_to_a_limit_together(path, monkeypatch):
    monkeypatch.setattr(files, "most_bytes", lambda size: 1_000_000)
    zeros = np.zeros(80_000)
    np.savez_compressed(path, a=zeros, b=zeros)
    assert read_arrays(path, ["a"])[0]["a"].shape == zeros.shape
    with pytest.raises(DataError, match="arrays of 1,280,256 bytes are compressed to"):
        read_arrays(path, ["a", "b"])


# Digests of equal objects are equal, and those of others differ.


@pytest.mark.parametrize(("one", "other", "are_equal"), [
    ("Free entry  now\n", "free ENTRY now", True), ("free entry now", "free entry now!", False),
    ("", "  ", True), (np.zeros((2, 3)), np.zeros((3, 2)), False),
    (np.zeros(6, np.float32), np.zeros(3, np.float64), False),
    (np.arange(6.0).reshape(2, 3).T, np.ascontiguousarray(np.arange(6.0).reshape(2, 3).T), True),
    (torch.arange(3.0), np.arange(3, dtype=np.float32), True), ("\ud83d", "\ud83e", False),
])  # fmt: skip
def test_texts_are_equal_but_for_case_and_spaces_and_arrays_by_shape_and_values(
    one, other, are_equal
):
    assert (digest_of(one) == digest_of(other)) == are_equal


def edges(*pairs: tuple[int, int]) -> np.ndarray:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return np.concatenate([ends, ends[::-1]], axis=1)


def test_a_graph_has_the_same_digest_in_every_order_of_nodes_and_edges():
    rng = np.random.default_rng(0)
    for _ in range(20):
        count, ends = 9, edges(*{(v, int(rng.integers(v))) for v in range(1, 9)})
        nodes = rng.integers(3, size=count)
        weights = rng.normal(size=(ends.shape[1], 2))
        place, order = rng.permutation(count), rng.permutation(ends.shape[1])
        moved = np.empty_like(nodes)
        moved[place] = nodes
        first = digest_of_graph(count, ends, tuple(nodes.tolist()), weights)
        again = place[ends[:, order]], tuple(moved.tolist()), weights[order]
        assert digest_of_graph(count, *again) == first
        changed = weights[order].copy()
        changed[0] += 1e-9
        assert digest_of_graph(count, again[0], again[1], changed) != first


def test_of_very_many_digests_the_smallest_are_listed(monkeypatch):
    monkeypatch.setattr(splits, "MOST", 3)
    listed = splits.as_hex(np.array([5, 1, 5, -7, 9]))
    assert np.frombuffer(bytes.fromhex(listed), np.int64).tolist() == [-7, 1, 5]


# Names in files, of classes, columns and nodes, are equal however their accents were typed.


ONE, TWO = "caf\u00e9", "cafe\u0301"  # composed and decomposed


def test_labels_and_columns_of_texts(tmp_path):
    (tmp_path / "t.csv").write_text(f"document,{TWO}\ngood,{ONE}\nbad, {TWO} \n")
    table = read_table(tmp_path / "t.csv", label=ONE)
    assert table.labels == [ONE, ONE]
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": "good", "label": TWO}) + "\n")
    assert read_table(tmp_path / "t.jsonl").labels == [ONE]


def test_labels_of_molecules(tmp_path):
    (tmp_path / "m.csv").write_text(f"smiles,kind\nCO,{ONE}\nCC,{TWO}\n")
    assert read_molecules(tmp_path / "m.csv", target="kind").targets == [(ONE,), (ONE,)]


def test_labels_and_nodes_of_graphs(tmp_path):
    (tmp_path / "graphs.csv").write_text(f"id,label\n{ONE},{TWO}\n")
    (tmp_path / "nodes.csv").write_text(f"graph,node,kind\n{TWO},a,{TWO}\n{ONE},b,{ONE}\n")
    (tmp_path / "edges.csv").write_text(f"graph,source,target\n{TWO},a,b\n")
    (graph,) = read_graph_tables(tmp_path).graphs
    assert (graph.label, list(graph.nodes), graph.count) == (ONE, [ONE, ONE], 2)
    line = json.dumps({"nodes": ["C"], "edges": [], "label": TWO})
    (tmp_path / "graphs.jsonl").write_text(line)
    assert read_jsonl_graphs(tmp_path / "graphs.jsonl").graphs[0].label == ONE


def test_labels_and_subjects_of_recordings_but_not_their_files(tmp_path):
    rows = (TWO, ONE, ONE), ("b", TWO, TWO), ("c", "rest", "B")
    for name, _, _ in rows:
        np.savetxt(tmp_path / f"{name}.csv", np.ones((9, 1)), header="a", comments="")
    listed = ["file,label,subject,fs", *(f"{file}.csv,{y},{s},3" for file, y, s in rows)]
    (tmp_path / "recordings.csv").write_text("\n".join(listed))
    read = read_recordings(tmp_path / "recordings.csv")
    assert (read.classes, set(read.subjects.tolist())) == ((ONE, "rest"), {ONE, "B"})


# Sequences in a file: their entries, and what is noticed when the file is damaged.


def test_stored_entries_are_those_that_were_written():
    texts = Stored.write((text.encode() for text in ["a", "", "größer", "b c"]), bytes.decode)
    assert [*texts] == ["a", "", "größer", "b c"]
    assert [*texts.take(np.array([2, 0]))] == ["größer", "a"]
    assert [*texts[1:3]] == ["", "größer"]
    assert texts.sizes.tolist() == [1, 0, 8, 3]
    assert texts[-1] == "b c"
    with pytest.raises(IndexError):
        texts[4]


def test_a_file_that_was_cut_off_is_noticed(tmp_path):
    texts = Stored.write(iter([b"abc", b"def"]), bytes.decode)
    texts._file.file.truncate(4)
    with pytest.raises(OSError, match="1 of 3 bytes"):
        texts[1]
