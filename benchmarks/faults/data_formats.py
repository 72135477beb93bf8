"""Valid files of every format that the commands read, their readers, and an independent reading."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from representer.data.graphs import read_graph_file
from representer.data.language import text_lines, tokens_of_line
from representer.data.molecules import assembled_molecules, read_molecules
from representer.data.signals import read_recordings, synthetic_recordings, write_npz
from representer.data.text import read_table, read_vectors

Rows = Sequence[Any]


def recordings_of(path: Path) -> Rows:
    """Return label, subject and samples of each window."""
    found = read_recordings(path)
    assert np.isfinite(found.signals).all(), "signals that are not finite were read"
    names = np.asarray(found.classes)[found.labels].tolist()
    return [(name, subject, signal.tobytes()) for name, subject, signal in
            zip(names, found.subjects.tolist(), found.signals, strict=True)]  # fmt: skip


def plain_arrays(path: Path, rows: Rows) -> Rows | None:
    """Return the windows as numpy reads them."""
    with np.load(path, allow_pickle=False) as file:
        signals, names, subjects = file["X"], file["y"], file["subject"]
    return [(str(name), str(subject), signal.astype(np.float32).tobytes())
            for name, subject, signal in zip(names, subjects, signals, strict=True)]  # fmt: skip


def write_arrays(path: Path) -> None:
    """Write recordings as arrays."""
    drawn = synthetic_recordings(subjects=2, windows=4, seconds=0.2)
    names = np.asarray(drawn.classes)[drawn.labels]
    arrays = {"X": drawn.signals, "y": names, "subject": drawn.subjects, "fs": 100.0}
    if path.suffix == ".mat":
        from scipy.io import savemat

        arrays["y"] = names.astype(object)
        savemat(path, arrays, do_compression=path.stem == "deflated")
    elif path.stem == "deflated":
        write_npz(path, drawn)
    else:
        np.savez(path, **arrays)


def write_words(path: Path) -> None:
    """Write word vectors as arrays."""
    np.savez(path, words=["a", "b", "a"], vectors=np.arange(90.0).reshape(3, 30))


def plain_words(path: Path, rows: Rows) -> Rows | None:
    """Return the first vector of each word as numpy reads them."""
    first: dict[str, list[float]] = {}
    with np.load(path, allow_pickle=False) as file:
        for word, row in zip(file["words"], file["vectors"], strict=True):
            first.setdefault(str(word), row.astype(np.float32).tolist())
    return list(first.items())


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


ROWS = [
    (f'{("wave", "star")[k % 2]} {k}, said "x"\nλ' if k % 7 == 0 else f"tide {k}", "ab"[k % 2])
    for k in range(40)
]


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Args:
        file: Name of a valid file, which `write` makes.
        write: Writes the file; a format that is a folder has ``/`` at the end of its file.
        read: The rows as the commands read them.
        reference: The rows by other code, None if that code cannot read the file either.
    """

    file: str
    write: Callable[[Path], object]
    read: Callable[[Path], Rows]
    reference: Callable[[Path, Rows], Rows | None] = lambda path, rows: None


def _table(path: Path) -> Rows:
    table = read_table(path)
    assert table.labels is not None
    names = (table.text_column, table.label_column, table.header)
    return [names, *zip(table.texts, table.labels, strict=True)]


def _write_delimited(path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        rows = [(text.replace("\n", " "), label) for text, label in ROWS]
        plain = path.suffix == ".tsv"
        writer.writerows([("id", "text", "label")])
        writer.writerows((k, *row) for k, row in enumerate(rows if plain else ROWS))


def _delimited(path: Path, rows: Rows) -> Rows | None:
    text = path.read_bytes().decode("utf-8-sig")
    if ";" in text or (path.suffix == ".csv" and "\t" in text):
        return None  # another separator may be right
    mark = "\t" if path.suffix == ".tsv" else ","
    cells = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True))
    filled = [row for row in cells if any(cell.strip() for cell in row)]
    assert len({len(row) for row in filled}) == 1, "rows of several widths were read"
    (text_column, label_column, has_header), head = rows[0], filled[0]
    names = [cell.strip() for cell in head] if has_header else []
    at = [names.index(name) if name in names else int(name) - 1
          for name in (text_column, label_column)]  # fmt: skip
    kept = [row for row in filled if not (has_header and row == head)]
    found = [(row[at[0]], row[at[1]].strip()) for row in kept]
    return [rows[0], *((text, label) for text, label in found if text.strip() and label)]


def _write_jsonl(path: Path) -> None:
    lines = [json.dumps({"text": text, "label": label}) for text, label in ROWS]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _objects(path: Path) -> list[dict[str, Any]]:
    text = path.read_bytes().decode("utf-8-sig")
    return [json.loads(line) for line in re.split(r"\r\n|\n|\r", text) if line.strip()]


def _shown(cell: Any) -> str:
    return cell if isinstance(cell, str) else "" if cell is None else json.dumps(cell)


def _jsonl(path: Path, rows: Rows) -> Rows | None:
    text, label, _ = rows[0]
    found = [(_shown(one[text]), _shown(one[label]).strip()) for one in _objects(path)]
    return [rows[0], *(row for row in found if row[0].strip() and row[1])]


def _write_parquet(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    texts, labels = zip(*ROWS, strict=True)
    codec = "none" if path.stem == "plain" else "snappy"
    parquet.write_table(pa.table({"text": texts, "label": labels}), path, compression=codec)


def _parquet(path: Path, rows: Rows) -> Rows | None:
    from pyarrow import parquet

    text, label, _ = rows[0]
    found = [(_shown(one[text]), _shown(one[label]).strip())
             for one in parquet.read_table(path).to_pylist()]  # fmt: skip
    return [rows[0], *(row for row in found if row[0].strip() and row[1])]


def _write_molecules(path: Path) -> None:
    lines = [f"{smiles},{len(smiles)}" for smiles in assembled_molecules(30).smiles]
    path.write_text("\n".join(["smiles,length", *lines]) + "\n", encoding="utf-8")


def _molecules(path: Path) -> Rows:
    table = read_molecules(path, target="length", skip_invalid=True)
    table.numbers()
    return [(table.smiles_column, "length", True),
            *((s, cells[0]) for s, cells in zip(table.smiles, table.targets, strict=True)),
            *(("", "") for _ in table.dropped)]  # fmt: skip


def _smiles(path: Path, rows: Rows) -> Rows | None:
    from rdkit import Chem

    cells = [
        row.split(",")
        for row in re.split(r"\r\n|\n|\r", path.read_bytes().decode("utf-8-sig"))
        if row.strip()
    ]
    if any('"' in cell or ";" in cell or "\t" in cell for row in cells for cell in row):
        return None
    at, value = cells[0].index(rows[0][0]), cells[0].index("length")
    known = {(row[at].strip(), row[value].strip()) for row in cells[1:]}
    for smiles, target in rows[1:]:
        if smiles:
            assert (smiles, target) in known, f"{smiles!r} with {target!r} is no row of the file"
            assert Chem.MolFromSmiles(smiles) is not None, f"{smiles!r} was accepted"
    return None


def _write_graphs(path: Path) -> None:
    graphs = [
        {"nodes": ["C", "O", "N"], "edges": [[0, 1, "s"], [1, 2, "d"]], "label": f"{k % 2}"}
        for k in range(20)
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in graphs), encoding="utf-8")


def _graphs(path: Path) -> Rows:
    return [(one.count, one.edge_index.shape[1], one.label) for one in read_graph_file(path).graphs]


def _json_graphs(path: Path, rows: Rows) -> Rows | None:
    return [
        (len(one["nodes"]), sum(1 + (e[0] != e[1]) for e in one["edges"]),
         _shown(one["label"]).strip())
        for one in _objects(path)
    ]  # fmt: skip


def _write_tu(folder: Path) -> None:
    folder.mkdir()
    nodes = [k // 3 + 1 for k in range(30)]
    edges = [(3 * g + a, 3 * g + b) for g in range(10) for a, b in ((1, 2), (2, 1), (2, 3), (3, 2))]
    files = {
        "A": [f"{a}, {b}" for a, b in edges], "graph_indicator": nodes,
        "graph_labels": [k % 2 for k in range(10)], "node_labels": [k % 4 for k in range(30)],
        "edge_attributes": [f"{k}.5, {k}" for k in range(len(edges))],
    }  # fmt: skip
    for name, lines in files.items():
        content = "".join(f"{line}\n" for line in lines)
        (folder / f"T_{name}.txt").write_text(content, encoding="utf-8")


def _unlabeled_graphs(path: Path) -> Rows:
    graphs = read_graph_file(path, require_labels=False).graphs
    return [(one.count, one.label) for one in graphs]


def _tu(path: Path, rows: Rows) -> Rows | None:
    numbers = [float(line) for line in (path / "T_graph_indicator.txt").read_text().split() if line]
    labels = path / "T_graph_labels.txt"
    cells = labels.read_text().split("\n") if labels.exists() else [None] * len(rows)
    return [(numbers.count(k + 1), cell and cell.strip()) for k, cell in
            enumerate(cells[: len(rows)])]  # fmt: skip


def _write_text(path: Path) -> None:
    path.write_text("one two <unk> three\n\nλ four\r\nfive six\n" * 20, encoding="utf-8")


def _tokens(path: Path) -> Rows:
    return [tokens_of_line(line, "word") for line in text_lines(path)]


def _plain_tokens(path: Path, rows: Rows) -> Rows | None:
    text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    return [line.split() for line in text.removesuffix("\n").split("\n")]


def _write_vectors(path: Path) -> None:
    lines = [f"word{k} " + " ".join(f"{k / 7 + d:.4f}" for d in range(6)) for k in range(30)]
    head = ["30 6"] if path.stem == "announced" else []
    path.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


def _vectors(path: Path) -> Rows:
    found = read_vectors(path)
    return [(word, row.tolist()) for word, row in zip(found.words, found.matrix, strict=True)]


def _plain_vectors(path: Path, rows: Rows) -> Rows | None:
    first: dict[str, list[float]] = {}
    text = path.read_bytes().decode("utf-8-sig")
    for line in re.split(r"\r\n|\n|\r", text.rstrip("\r\n")):
        fields = line.replace("\t", " ").rstrip(" ").split(" ")
        if len(fields) > 2 and rows:
            size = len(rows[0][1])
            values = np.array([float(field) for field in fields[-size:]], np.float32)
            first.setdefault(" ".join(fields[:-size]), values.tolist())
    return list(first.items())


FORMATS = {
    "csv": Format("table.csv", _write_delimited, _table, _delimited),
    "tsv": Format("table.tsv", _write_delimited, _table, _delimited),
    "jsonl": Format("table.jsonl", _write_jsonl, _table, _jsonl),
    "parquet": Format("packed.parquet", _write_parquet, _table, _parquet),
    "parquet, plain": Format("plain.parquet", _write_parquet, _table, _parquet),
    "SMILES": Format("molecules.csv", _write_molecules, _molecules, _smiles),
    "graphs": Format("graphs.jsonl", _write_graphs, _graphs, _json_graphs),
    "TU": Format("T/", _write_tu, _unlabeled_graphs, _tu),
    "text": Format("text.txt", _write_text, _tokens, _plain_tokens),
    "GloVe": Format("vectors.txt", _write_vectors, _vectors, _plain_vectors),
    "word2vec": Format("announced.txt", _write_vectors, _vectors, _plain_vectors),
    "npz of vectors": Format("words.npz", write_words, _vectors, plain_words),
    "npz": Format("stored.npz", write_arrays, recordings_of, plain_arrays),
    "npz, deflated": Format("deflated.npz", write_arrays, recordings_of, plain_arrays),
    "mat": Format("plain.mat", write_arrays, recordings_of),
    "mat, deflated": Format("deflated.mat", write_arrays, recordings_of),
    "edf": Format("s1.edf", write_mne, recordings_of),
    "fif": Format("s1_raw.fif", write_mne, recordings_of),
    "fif.gz": Format("s1_raw.fif.gz", write_mne, recordings_of),
    "fif of epochs": Format("s1-epo.fif", write_mne, recordings_of),
}
