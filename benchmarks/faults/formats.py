"""Valid files of every format that the commands read, their readers, and an independent reading."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from representer.data.graphs import read_graph_file
from representer.data.language import text_lines, tokens_of_line
from representer.data.molecules import assembled_molecules, read_molecules
from representer.data.signals import read_recordings, synthetic_recordings, write_npz
from representer.data.text import read_table, read_vectors

Rows = Sequence[Any]
TABLE = [
    (f'{("wave", "star")[k % 2]} {k}, said "x"\nλ' if k % 7 == 0 else f"tide {k}", "ab"[k % 2])
    for k in range(40)
]


def write_lines(path: Path, lines: Iterable[object]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig")


def lines_of(path: Path) -> list[str]:
    return [line for line in re.split(r"\r\n|\n|\r", text_of(path)) if line.strip()]


# Tables: names of the columns and whether they are in a header; then text and label of each row.


def table_of(path: Path) -> Rows:
    table = read_table(path)
    assert table.labels is not None
    names = (table.text_column, table.label_column, table.header)
    return [names, *zip(table.texts, table.labels, strict=True)]


def write_delimited(path: Path) -> None:
    is_tsv = path.suffix == ".tsv"
    rows = [(text.replace("\n", " ") if is_tsv else text, label) for text, label in TABLE]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if is_tsv else ",")
        writer.writerows([("id", "text", "label"), *((k, *row) for k, row in enumerate(rows))])


def plain_delimited(path: Path, rows: Rows) -> Rows | None:
    text, mark = text_of(path), "\t" if path.suffix == ".tsv" else ","
    if ";" in text or (mark == "," and "\t" in text):
        return None  # another separator may be right
    cells = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True))
    filled = [row for row in cells if any(cell.strip() for cell in row)]
    assert len({len(row) for row in filled}) == 1, "rows of several widths were read"
    (*columns, has_header), head = rows[0], filled[0]
    names = [cell.strip() for cell in head] if has_header else []
    first, second = (names.index(c) if c in names else int(c) - 1 for c in columns)
    kept = [row for row in filled if not (has_header and row == head)]
    return [rows[0], *labeled((row[first], row[second]) for row in kept)]


def labeled(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(text, label.strip()) for text, label in pairs if text.strip() and label.strip()]


def cell_of(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def plain_objects(path: Path, rows: Rows) -> Rows | None:
    from pyarrow import parquet

    text, label, _ = rows[0]
    is_parquet = path.suffix == ".parquet"
    values = parquet.read_table(path).to_pylist() if is_parquet else map(json.loads, lines_of(path))
    return [rows[0], *labeled((cell_of(value[text]), cell_of(value[label])) for value in values)]


def write_parquet(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    texts, labels = zip(*TABLE, strict=True)
    codec = "none" if path.stem == "plain" else "snappy"
    parquet.write_table(pa.table({"text": texts, "label": labels}), path, compression=codec)


# Molecules and graphs.


def molecules_of(path: Path) -> Rows:
    table = read_molecules(path, target="length", skip_invalid=True)
    table.numbers()
    pairs = ((s, cells[0]) for s, cells in zip(table.smiles, table.targets, strict=True))
    return [(table.smiles_column, "length", True), *pairs, *[("", "")] * len(table.dropped)]


def check_molecules(path: Path, rows: Rows) -> None:
    from rdkit import Chem

    cells = [line.split(",") for line in lines_of(path)]
    if any(mark in cell for row in cells for cell in row for mark in '";\t'):
        return
    column, value = cells[0].index(rows[0][0]), cells[0].index("length")
    known = {(row[column].strip(), row[value].strip()) for row in cells[1:]}
    for smiles, target in rows[1:]:
        if smiles:
            assert (smiles, target) in known, f"{smiles!r} with {target!r} is no row of the file"
            assert Chem.MolFromSmiles(smiles) is not None, f"{smiles!r} was accepted"


def graphs_of(path: Path) -> Rows:
    return [(one.count, one.edge_index.shape[1], one.label) for one in read_graph_file(path).graphs]


def plain_graphs(path: Path, rows: Rows) -> Rows | None:
    return [
        (len(one["nodes"]), sum(1 + (e[0] != e[1]) for e in one["edges"]),
         cell_of(one["label"]).strip())
        for one in map(json.loads, lines_of(path))
    ]  # fmt: skip


def write_tu(folder: Path) -> None:
    folder.mkdir()
    edges = [(3 * g + a, 3 * g + b) for g in range(10) for a, b in ((1, 2), (2, 1), (2, 3), (3, 2))]
    files = {
        "A": [f"{a}, {b}" for a, b in edges], "graph_indicator": [k // 3 + 1 for k in range(30)],
        "graph_labels": [k % 2 for k in range(10)], "node_labels": [k % 4 for k in range(30)],
        "edge_attributes": [f"{k}.5, {k}" for k in range(len(edges))],
    }  # fmt: skip
    for name, lines in files.items():
        write_lines(folder / f"T_{name}.txt", lines)


def tu_of(path: Path) -> Rows:
    graphs = read_graph_file(path, require_labels=False).graphs
    return [(one.count, one.label) for one in graphs]


def plain_tu(path: Path, rows: Rows) -> Rows | None:
    numbers = [float(line) for line in (path / "T_graph_indicator.txt").read_text().split() if line]
    labels = path / "T_graph_labels.txt"
    cells = labels.read_text().split("\n") if labels.exists() else [None] * len(rows)
    return [(numbers.count(k + 1), cell and cell.strip()) for k, cell in
            enumerate(cells[: len(rows)])]  # fmt: skip


# Texts and vectors of words.


def plain_tokens(path: Path, rows: Rows) -> Rows | None:
    text = text_of(path).replace("\r\n", "\n").replace("\r", "\n")
    return [line.split() for line in text.removesuffix("\n").split("\n")]


def write_vectors(path: Path) -> None:
    lines = [f"word{k} " + " ".join(f"{k / 7 + d:.4f}" for d in range(6)) for k in range(30)]
    write_lines(path, ["30 6"] * (path.stem == "announced") + lines)


def vectors_of(path: Path) -> Rows:
    found = read_vectors(path)
    return [(word, row.tolist()) for word, row in zip(found.words, found.matrix, strict=True)]


def plain_vectors(path: Path, rows: Rows) -> Rows | None:
    """Return the first vector of each word."""
    first: dict[str, list[float]] = {}
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            for word, row in zip(file["words"], file["vectors"], strict=True):
                first.setdefault(str(word), row.astype(np.float32).tolist())
        return list(first.items())
    for line in re.split(r"\r\n|\n|\r", text_of(path).rstrip("\r\n")):
        fields = line.replace("\t", " ").rstrip(" ").split(" ")
        if len(fields) > 2 and rows:
            size = len(rows[0][1])
            values = np.array([float(field) for field in fields[-size:]], np.float32)
            first.setdefault(" ".join(fields[:-size]), values.tolist())
    return list(first.items())


# Recordings: label, subject and samples of each window.


def recordings_of(path: Path) -> Rows:
    found = read_recordings(path)
    assert np.isfinite(found.signals).all(), "signals that are not finite were read"
    names = np.asarray(found.classes)[found.labels].tolist()
    return [(name, subject, signal.tobytes()) for name, subject, signal in
            zip(names, found.subjects.tolist(), found.signals, strict=True)]  # fmt: skip


def plain_arrays(path: Path, rows: Rows) -> Rows | None:
    with np.load(path, allow_pickle=False) as file:
        windows = zip(file["y"], file["subject"], file["X"], strict=True)
        return [(str(name), str(subject), signal.astype(np.float32).tobytes())
                for name, subject, signal in windows]  # fmt: skip


def write_arrays(path: Path) -> None:
    drawn = synthetic_recordings(subjects=2, windows=4, seconds=0.2)
    names = np.asarray(drawn.classes)[drawn.labels]
    arrays = {"X": drawn.signals, "y": names, "subject": drawn.subjects, "fs": 100.0}
    if path.suffix == ".mat":
        from scipy.io import savemat

        compression = path.stem == "deflated"
        savemat(path, arrays | {"y": names.astype(object)}, do_compression=compression)
    elif path.stem == "deflated":
        write_npz(path, drawn)
    else:
        np.savez(path, **arrays)


def write_mne(path: Path) -> None:
    """Write a recording or epochs with MNE."""
    import mne

    rng = np.random.default_rng(0)
    about = mne.create_info(["Fz", "Cz"], 100.0, "eeg")
    raw = mne.io.RawArray(rng.normal(0, 1e-5, (2, 300)), about, verbose="error")
    raw.set_annotations(mne.Annotations([0.5, 1.0, 2.0], [0.5, 0.5, 0.5], ["rest", "task", "rest"]))
    if path.suffix == ".edf":
        raw.export(str(path), overwrite=True, verbose="error")
        return
    if path.name.endswith("-epo.fif"):
        events, numbers = mne.events_from_annotations(raw, verbose="error")
        raw = mne.Epochs(raw, events, numbers, 0, 0.4, baseline=None, verbose="error")
    raw.save(path, overwrite=True, verbose="error")


class Format(NamedTuple):
    """One kind of file.

    ``reference`` returns the rows by other code, or None if that code cannot read the file either;
    a format that is a folder has ``/`` at the end of its name.
    """

    file: str
    write: Callable[[Path], object]
    read: Callable[[Path], Rows]
    reference: Callable[[Path, Rows], Rows | None] = lambda path, rows: None


_LENGTHS = [f"{smiles},{len(smiles)}" for smiles in assembled_molecules(30).smiles]
_GRAPH = {"nodes": ["C", "O", "N"], "edges": [[0, 1, "s"], [1, 2, "d"]]}
_TEXT = "one two <unk> three\n\nλ four\r\nfive six\n" * 20
_WORDS = {"words": ["a", "b", "a"], "vectors": np.arange(90.0).reshape(3, 30)}
FORMATS = {
    "csv": Format("table.csv", write_delimited, table_of, plain_delimited),
    "tsv": Format("table.tsv", write_delimited, table_of, plain_delimited),
    "jsonl": Format(
        "table.jsonl",
        lambda p: write_lines(p, (json.dumps({"text": x, "label": y}) for x, y in TABLE)),
        table_of, plain_objects,
    ),
    "parquet": Format("packed.parquet", write_parquet, table_of, plain_objects),
    "parquet, plain": Format("plain.parquet", write_parquet, table_of, plain_objects),
    "SMILES": Format(
        "molecules.csv", lambda p: write_lines(p, ["smiles,length", *_LENGTHS]),
        molecules_of, check_molecules,
    ),
    "graphs": Format(
        "graphs.jsonl",
        lambda p: write_lines(p, (json.dumps(_GRAPH | {"label": f"{k % 2}"}) for k in range(20))),
        graphs_of, plain_graphs,
    ),
    "TU": Format("T/", write_tu, tu_of, plain_tu),
    "text": Format(
        "text.txt", lambda p: p.write_text(_TEXT, encoding="utf-8"),
        lambda p: [tokens_of_line(line, "word") for line in text_lines(p)], plain_tokens,
    ),
    "GloVe": Format("vectors.txt", write_vectors, vectors_of, plain_vectors),
    "word2vec": Format("announced.txt", write_vectors, vectors_of, plain_vectors),
    "npz of vectors": Format(
        "words.npz", lambda p: np.savez(p, **_WORDS), vectors_of, plain_vectors,
    ),
    "npz": Format("stored.npz", write_arrays, recordings_of, plain_arrays),
    "npz, deflated": Format("deflated.npz", write_arrays, recordings_of, plain_arrays),
    "mat": Format("plain.mat", write_arrays, recordings_of),
    "mat, deflated": Format("deflated.mat", write_arrays, recordings_of),
    **{
        name: Format(file, write_mne, recordings_of)
        for name, file in (("edf", "s1.edf"), ("fif", "s1_raw.fif"), ("fif.gz", "s1_raw.fif.gz"),
                           ("fif of epochs", "s1-epo.fif"))
    },
}  # fmt: skip
