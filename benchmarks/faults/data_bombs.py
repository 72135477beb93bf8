"""Files made to exhaust memory or time, or to run code, and special files instead of data."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CANARY = "executed"
_GIB = 2**30


class _Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path.parent / CANARY}",)


def _npy(form: str, data: bytes = b"", version: int = 1) -> bytes:
    text = form.encode("latin-1")
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def _form(shape: str, descr: str = "'<f4'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


def _with_x(path: Path, x: bytes, **changes: Any) -> None:
    """Write an archive of recordings whose array X is given by its bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", x)
        arrays = {"y": ["a", "b"] * 3, "subject": [0, 0, 1, 1, 2, 2], "fs": 100.0} | changes
        for name, value in arrays.items():
            content = io.BytesIO()
            np.save(content, np.asarray(value))
            archive.writestr(f"{name}.npy", content.getvalue())


def _zeros(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("y", "subject", "fs"):
            content = io.BytesIO()
            np.save(content, np.zeros(6))
            archive.writestr(f"{name}.npy", content.getvalue())
        with archive.open("X.npy", "w", force_zip64=True) as file:
            file.write(_npy(_form(f"(6, 1, {_GIB // 12})")))
            for _ in range(512):
                file.write(bytes(_GIB // 1024))


def _long_dictionary(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    numbers = pa.array(np.zeros(900_000, np.int32))
    texts = pa.DictionaryArray.from_arrays(numbers, ["x" * 10_000])
    labels = pa.DictionaryArray.from_arrays(pa.array(np.arange(900_000) % 2), ["a", "b"])
    parquet.write_table(pa.table({"text": texts, "label": labels}), path)


def _many_rows(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    zeros = pa.array(np.zeros(50_000_000, np.int8))
    parquet.write_table(pa.table({"text": zeros, "label": zeros}), path)


def _expanding(path: Path, line: bytes, times: int) -> None:
    with gzip.open(path, "wb") as file:
        for _ in range(times):
            file.write(line)


def _tu(folder: Path, **files: str) -> None:
    folder.mkdir()
    usual = {"A": "1, 2\n2, 1\n", "graph_indicator": "1\n1\n"}
    for name, content in (usual | files).items():
        (folder / f"T_{name}.txt").write_text(content, encoding="utf-8")


def _text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content, encoding="utf-8")


def _bytes(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


HEAD = "text,label\n" + "wave,a\nstar,b\n" * 9
RECORD = '{"text": "wave", "label": "a"}\n{"text": "star", "label": "b"}\n'
GRAPH = '{"nodes": ["a"], "edges": [], "label": "x"}\n'

# by format and name: what writes the file instead of a valid one
BOMBS: dict[tuple[str, str], Callable[[Path], object]] = {
    ("csv", "a cell of 50 MB"): lambda p: p.write_text(f'{HEAD}"{"x" * 50_000_000}",a\n'),
    ("csv", "a line of 20 MB"): lambda p: p.write_text(f"{HEAD}{'x,' * 10_000_000}\n"),
    ("csv", "100,000 columns"): lambda p: p.write_text("\n".join(["x," * 100_000] * 3)),
    ("csv", "UTF-16"): _bytes(HEAD.encode("utf-16")),
    ("csv", "latin-1"): _bytes((HEAD + "grün,a\n").encode("latin-1")),
    ("csv", "an open quote"): lambda p: p.write_text(HEAD + '"' + "x,a\n" * 1_000_000),
    ("csv", "a header alone"): _text("text,label\n"),
    ("csv", "rows too long"): _text("text,label\n" + "wave,a,\nstar,b,\n" * 9),
    ("csv", "one name twice"): _text("text,text,label\n" + "wave,x,a\nstar,y,b\n" * 9),
    ("csv", "gzip"): lambda p: p.write_bytes(gzip.compress(HEAD.encode())),
    ("csv", "a pipe"): lambda p: os.mkfifo(p),
    ("csv", "a device"): lambda p: p.symlink_to("/dev/zero"),
    ("csv", "a loop"): lambda p: p.symlink_to(p),
    ("csv", "a folder"): lambda p: p.mkdir(),
    ("csv", "1 TB of nothing"): lambda p: (p.write_text(HEAD), os.truncate(p, 2**40)),
    ("csv.gz", "one expanding line"): lambda p: _expanding(p, b"x" * 2**20, 1024),
    ("csv.gz", "expanding rows"): lambda p: _expanding(p, b"wave,a\n" * 2**17, 32),
    ("jsonl.gz", "expanding rows"): lambda p: _expanding(p, RECORD.encode() * 2**14, 32),
    ("xlsx", "a spreadsheet"): lambda p: zipfile.ZipFile(p, "w").writestr("xl/a.xml", "<a/>"),
    ("jsonl", "deep arrays"): _text('{"text": ' + "[" * 100_000 + "]" * 100_000 + "}\n"),
    ("jsonl", "deep objects"): _text('{"a":' * 100_000),
    ("jsonl", "a long number"): _text(RECORD + f'{{"text": "x", "label": {"9" * 100_000}}}\n'),
    ("jsonl", "an infinite number"): _text(RECORD + '{"text": "x", "label": 1e999}\n'),
    ("jsonl", "not a number"): _text(RECORD + '{"text": "x", "label": NaN}\n'),
    ("jsonl", "a key twice"): _text(RECORD + '{"text": "x", "text": "y", "label": "a"}\n'),
    ("jsonl", "half a surrogate"): _text(RECORD + '{"text": "\\ud800", "label": "a"}\n'),
    ("jsonl", "an array"): _text(RECORD + '["x", "a"]\n'),
    ("jsonl", "many keys"): _text(json.dumps({f"k{k}": "x" for k in range(200_000)}) + "\n"),
    ("parquet", "a long dictionary"): _long_dictionary,
    ("parquet", "50 million rows"): _many_rows,
    ("parquet", "a long footer"): _bytes(b"PAR1" + b"\0" * 50 + b"\xff\xff\xff\x7fPAR1"),
    ("SMILES", "a long molecule"): _text("smiles,length\n" + "C" * 200_000 + ",1\n"),
    ("SMILES", "deep branches"): _text("smiles,length\n" + "C(" * 50_000 + ")" * 50_000 + ",1\n"),
    ("SMILES", "text after a molecule"): _text("smiles,length\nCCO CCCCCC,1\n"),
    ("SMILES", "many rings"): _text("smiles,length\n" + "C1CC1" * 20_000 + ",1\n"),
    ("graphs", "a node of 10^18"): _text(GRAPH.replace("[]", f"[[0, {10**18}]]")),
    ("graphs", "deep features"): _text(GRAPH.replace('"a"', "[" * 50_000 + "]" * 50_000)),
    ("graphs", "true as a node"): _text(GRAPH.replace("[]", "[[true, false]]")),
    ("graphs", "a huge feature"): _text(GRAPH.replace('"a"', f"[{'9' * 400}]")),
    ("TU", "a graph of 10^15"): lambda p: _tu(p, graph_indicator=f"1\n{10**15}\n"),
    ("TU", "a node of 10^15"): lambda p: _tu(p, A=f"1, {10**15}\n"),
    ("TU", "a graph of 10^8"): lambda p: _tu(p, graph_indicator=f"1\n{10**8}\n"),
    ("TU", "no edges"): lambda p: _tu(p, A=""),
    ("TU", "a linked file"): lambda p: (_tu(p), (p / "T_node_labels.txt").symlink_to("/dev/zero")),
    ("text", "a line of 50 MB"): lambda p: p.write_text("x " * 25_000_000),
    ("text", "bytes"): _bytes(bytes(range(256)) * 100),
    ("GloVe", "a million values"): lambda p: p.write_text("word" + " 1.0" * 1_000_000 + "\n"),
    ("GloVe", "a huge value"): _text("a 1.0 2.0\nb 1e39 2.0\n"),
    ("word2vec", "10^9 words"): _text("999999999 999999999\na 1.0\n"),
    ("npz", "10^11 elements"): lambda p: _with_x(p, _npy(_form("(99999999999,)"))),
    ("npz", "a product that wraps"): lambda p: _with_x(p, _npy(_form("(4294967296, 4294967296)"))),
    ("npz", "a negative shape"): lambda p: _with_x(p, _npy(_form("(-1, -1)"), bytes(4))),
    ("npz", "nothing times 10^12"): lambda p: _with_x(p, _npy(_form("(0, 1000000000000)"))),
    ("npz", "empty elements"): lambda p: _with_x(p, _npy(_form("(99999999999,)", "'|S0'"))),
    ("npz", "large elements"): lambda p: _with_x(p, _npy(_form("(1,)", "'|V2000000000'"))),
    ("npz", "fields"): lambda p: _with_x(p, _npy(_form("(1,)", "[('a', '<f4')]"), bytes(4))),
    ("npz", "objects"): lambda p: _with_x(
        p, _npy(_form("(1,)", "'|O'"), pickle.dumps(_Bomb(p)))
    ),
    ("npz", "a deep header"): lambda p: _with_x(p, _npy("(" * 60_000)),
    ("npz", "a header of 2 GiB"): lambda p: _with_x(
        p, b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{"
    ),
    ("npz", "code in a header"): lambda p: _with_x(p, _npy("__import__('os').system('true')\n")),
    ("npz", "512 MiB of zeros"): _zeros,
    ("npz", "dates"): lambda p: _with_x(p, _npy(_form("(6, 1, 5)", "'<M8[s]'"), bytes(240))),
    ("npz", "complex numbers"): lambda p: _with_x(p, _npy(_form("(6, 1, 5)", "'<c8'"), bytes(240))),
    ("npz", "no rate"): lambda p: _with_x(p, _npy(_form("(6, 1, 5)"), bytes(120)), fs=np.nan),
    ("npz", "rates"): lambda p: _with_x(p, _npy(_form("(6, 1, 5)"), bytes(120)), fs=[1.0, 2.0]),
    ("npz", "a pickle"): lambda p: p.write_bytes(pickle.dumps(_Bomb(p))),
    ("npz", "a pipe"): lambda p: os.mkfifo(p),
    ("npz of vectors", "objects"): lambda p: np.savez(
        p, words=np.array([_Bomb(p)], dtype=object), vectors=np.ones((1, 3))
    ),
    ("mat", "a pickle"): lambda p: p.write_bytes(pickle.dumps(_Bomb(p))),
    ("fif", "a pipe"): lambda p: os.mkfifo(p),
    ("edf", "a header of 10^8 records"): _bytes(b"0       " + b"99999999" * 60),
}  # fmt: skip
