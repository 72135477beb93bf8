"""Files of a few kilobytes that declare gigabytes, or name files that are not theirs."""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from faults import Case, Suite, temporary_folder
from faults.forked import HANG, forked
from representer.data.graphs import read_graph_file
from representer.data.molecules import parse_smiles
from representer.data.molecules.table import read_molecule_grid, read_molecules
from representer.data.signals import read_recordings
from representer.data.tables import read_grid
from representer.errors import DataError
from representer.report.pictures import draw_graph, draw_shares

SECONDS = 5.0
SAMPLES = np.random.default_rng(0).normal(size=(1000, 2)).astype("<f4")
REFUSED = 2
_PLACE: list[Path] = []
Write = Callable[[Path], object]


def setup() -> None:
    """Import every reader before the cases, whose seconds are those of reading."""
    import mne.io
    import pyarrow.parquet
    import python_calamine
    import scipy.io

    assert mne.io, (pyarrow.parquet, python_calamine, scipy.io)
    torch.set_num_threads(1)
    _PLACE.append(temporary_folder())
    _set({"data": SAMPLES.T})(_PLACE[0] / "warm.set")
    read_recordings(_PLACE[0] / "warm.set", seconds=1.0, is_labeled=False)


def _archive(**members: str) -> Write:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name.replace("__", "/"), content)

    return write


def _xlsx(*sheets: str, texts: str = "") -> Write:
    """Return what writes a workbook by hand; its sheets hold the XML of rows.

    Cells name the ``texts`` by their number.
    """
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    numbers = range(1, len(sheets) + 1)
    named = "".join(f'<sheet name="S{k}" sheetId="{k}" r:id="r{k}"/>' for k in numbers)
    links = "".join(
        f'<Relationship Id="r{k}" Type="{office}/worksheet" Target="worksheets/s{k}.xml"/>'
        for k in numbers
    )
    root = f'<Relationship Id="r" Type="{office}/officeDocument" Target="xl/workbook.xml"/>'
    return _archive(**{
        "_rels/.rels": f'<Relationships xmlns="{package}">{root}</Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{named}</sheets>'
                           "</workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}">{links}</Relationships>',
        **{
            f"xl/worksheets/s{k}.xml":
                f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>'
            for k, rows in zip(numbers, sheets, strict=True)
        },
        "xl/sharedStrings.xml": f'<sst xmlns="{main}">{texts}</sst>',
    })  # fmt: skip


def _ods(*rows: str) -> Write:
    names = "".join(f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
                    for name in ("office", "table", "text"))  # fmt: skip
    body = f'<table:table table:name="S">{"".join(rows)}</table:table>'
    body = f"<office:body><office:spreadsheet>{body}</office:spreadsheet></office:body>"
    return _archive(**{
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
        "content.xml": f"<office:document-content{names}>{body}</office:document-content>",
    })  # fmt: skip


def _row(rows: int, columns: int, content: str = "<text:p>x</text:p>") -> str:
    kind = ' office:value-type="string"' if content else ""
    cell = f'<table:table-cell table:number-columns-repeated="{columns}"{kind}>{content}'
    row = f'<table:table-row table:number-rows-repeated="{rows}">{cell}</table:table-cell>'
    return f"{row}</table:table-row>"


def _lying(path: Path) -> None:
    """Write an archive whose directory declares ten bytes for a gigabyte."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("xl/workbook.xml", "w", force_zip64=True) as file,
    ):
        for _ in range(1024):
            file.write(b" " * (1 << 20))
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<I", 10)
    path.write_bytes(content)


def _cell(place: str, content: str = "<v>1</v>") -> str:
    return f'<row r="{place.lstrip("XFD")}"><c r="{place}">{content}</c></row>'


def _repeated(kind: str, size: int, rows: int, **options: Any) -> Write:
    def write(path: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        word: Any = "a" * size if "string" in kind else b"a" * size
        words = pa.array([word], getattr(pa, kind)())
        column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), words)
        table = pa.table({"text": column, "label": ["x", "y"] * (rows // 2)})
        pages = {"dictionary_pagesize_limit": 1 << 30, "data_page_size": 1 << 30}
        parquet.write_table(table, path, compression="zstd", **pages, **options)

    return write


def _fixed(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    wide = pa.array([b"a" * (1 << 20)] * 200, pa.binary(1 << 20))
    parquet.write_table(pa.table({"text": wide}), path, compression="zstd")


def _sdf(records: int) -> Write:
    molecule = "\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0 0.0 0.0 C 0 0\nM  END\n"
    return lambda path: path.write_text(
        "".join(f"{molecule}> <p{k}>\n1\n\n$$$$\n" for k in range(records))
    )


def _wide_objects(path: Path) -> None:
    first = json.dumps({f"k{k}": 1 for k in range(100_000)})
    path.write_text(f"{first}\n" + "{}\n" * 30_000)


def _set(fields: dict[str, Any], *, is_packed: bool = False) -> Write:
    def write(path: Path) -> None:
        from scipy.io import savemat

        eeg: dict[str, Any] = {
            "setname": "x", "nbchan": 2.0, "trials": 1.0, "pnts": 1000.0, "srate": 100.0,
            "xmin": 0.0, "xmax": 10.0, "chanlocs": [], "event": [], "icaweights": [],
        }  # fmt: skip
        savemat(path, {"EEG": eeg | fields}, appendmat=False, do_compression=is_packed)

    return write


def _cells_of_nothing(path: Path) -> None:
    """Write a MATLAB file with a structure EEG that declares two billion values."""

    def element(kind: int, data: bytes) -> bytes:
        return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)

    head = element(6, struct.pack("<II", 2, 0)) + element(5, struct.pack("<ii", 2**31 - 1, 1))
    fields = element(5, struct.pack("<i", 8)) + element(1, b"data\0\0\0\0")
    content = zlib.compress(element(14, head + element(1, b"EEG") + fields))
    start = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    path.write_bytes(start + struct.pack("<II", 15, len(content)) + content)


def _vhdr(data: str = "d.eeg", marker: str = "d.vmrk", channels: int = 2) -> Write:
    def write(path: Path) -> None:
        path.write_text(
            "Brain Vision Data Exchange Header File Version 1.0\n[Common Infos]\nCodepage=UTF-8\n"
            f"DataFile={data}\nMarkerFile={marker}\nDataFormat=BINARY\n"
            f"DataOrientation=MULTIPLEXED\nNumberOfChannels={channels}\nSamplingInterval=10000\n"
            "[Binary Infos]\nBinaryFormat=IEEE_FLOAT_32\n[Channel Infos]\nCh1=a,,1,uV\n"
        )

    return write


def _beside(write: Write, suffix: str, make: Write) -> Write:
    """Return what writes a file and, beside it, another one."""
    return lambda path: (make(path.with_suffix(suffix)), write(path))


def _npz(path: Path) -> None:
    content = io.BytesIO()
    np.save(content, np.zeros((6, 1, 1 << 24), np.float32))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", content.getvalue())


def _mat(path: Path) -> None:
    from scipy.io import savemat

    savemat(path, {"X": np.zeros((6, 1, 1 << 23))}, do_compression=True)


def _edf(path: Path) -> None:
    """Write 500 signals with one sample a second beside one with 2,000."""
    count, head = 500, b"0".ljust(252)
    fields = b"".join(b"2000    " if k == 0 else b"1       " for k in range(count))
    columns = b"0".ljust(216 * count) + fields + b" " * (32 * count)
    path.write_bytes(head + str(count).encode().ljust(4) + columns + bytes(2 * 2499 * 200))


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _secret(path: Path) -> None:
    path.symlink_to(path.parent.parent / f"secret/o{path.suffix}")


def _samples(path: Path) -> None:
    SAMPLES.tofile(path)


LISTED = "file,label,subject\n"
FAR = _cell("A1", '<v>1</v></c><c r="B1"><v>2</v>')
# by format and name: what writes the file
FILES: dict[tuple[str, str], Write] = {
    ("xlsx", "a cell in the last corner"): _xlsx(FAR + _cell("XFD1048576")),
    ("xlsx", "a cell far away"): _xlsx(FAR + _cell("XFD1000")  + _cell("XFD20000")),
    ("xlsx", "a far cell on the second sheet"): _xlsx(FAR, _cell("XFD1048576")),
    ("xlsx", "many sheets"): _xlsx(*[FAR + _cell("XFD900")] * 20),
    ("xlsx", "cells without a place"): _xlsx(
        f"<row r='1048575'/><row>{'<c/>' * 999}<c><v>1</v></c></row>"
    ),
    ("xlsx", "a text that cells share"): _xlsx(
        FAR + '<row><c t="s"><v> +0</v></c></row>' * 20_000,
        texts=f"<si><t>{'a' * (5 << 20)}</t></si>",
    ),
    ("xlsx", "a lying directory"): _lying,
    ("xlsx", "a binary workbook"): _archive(**{"xl/workbook.bin": "x"}),
    ("xlsx", "a gigabyte of blanks"): _archive(**{"xl/workbook.xml": " " * (1 << 29)}),
    ("xlsx", "entities"): _xlsx('<!DOCTYPE a [<!ENTITY b "c">]><row>&b;</row>'),
    ("xlsx", "an open document"): _ods(_row(1_000_000, 1000)),
    ("ods", "repeated rows"): _ods(_row(1_000_000, 1000)),
    ("ods", "repeated columns"): _ods(_row(1000, 1_000_000)),
    ("ods", "a text that rows repeat"): _ods(
        _row(20_000, 2, f"<text:p>{'a' * (1 << 20)}</text:p>")
    ),
    ("ods", "two billion blanks"): _ods(
        _row(1, 1, '<text:p><text:s text:c="2000000000"/></text:p>')
    ),
    ("ods", "empty rows before a row"): _ods(_row(1_000_000, 1, ""), _row(1, 1000)),
    ("parquet", "texts"): _repeated("string", 15 << 20, 20_000),
    ("parquet", "large texts"): _repeated("large_string", 15 << 20, 20_000),
    ("parquet", "bytes"): _repeated("binary", 15 << 20, 20_000),
    ("parquet", "bytes without a schema"): _repeated(
        "binary", 15 << 20, 20_000, store_schema=False
    ),
    ("parquet", "large bytes"): _repeated("large_binary", 15 << 20, 20_000),
    ("parquet", "one page of 20 MiB"): _repeated("binary", 20 << 20, 20_000),
    ("parquet", "in groups"): _repeated("binary", 1 << 20, 20_000, row_group_size=2000),
    ("parquet", "wide cells"): _fixed,
    ("sdf", "30,000 properties"): _sdf(30_000),
    ("jsonl", "100,000 keys that others lack"): _wide_objects,
    ("set", "compressed zeros"): lambda p: _set(
        {"data": SAMPLES.T, "icaweights": np.zeros(100 << 20, np.float32)}, is_packed=True
    )(p),
    ("set", "a structure of nothing"): _cells_of_nothing,
    ("set", "a billion channels"): _set({"data": SAMPLES.T, "nbchan": 1e9}),
    ("set", "a trillion samples"): _beside(
        _set({"data": "d.fdt", "pnts": 1e12}), ".fdt", _samples
    ),
    ("set", "a billion trials"): _set({"data": SAMPLES.T, "trials": 1e9}),
    ("set", "a file above"): _set({"data": "../secret/o.fdt"}),
    ("set", "trials above"): _set({"data": "../secret/o.fdt", "trials": 2.0}),
    ("set", "a link"): _beside(_set({"data": "d.fdt"}), ".fdt", _secret),
    ("set", "a pipe beside"): _beside(_set({"data": "d.fdt"}), ".fdt", _pipe),
    ("set", "a pipe"): _pipe,
    ("vhdr", "a file above"): _vhdr("../secret/o.eeg"),
    ("vhdr", "a file of the system"): _vhdr("/etc/passwd"),
    ("vhdr", "markers above"): _beside(_vhdr(marker="../secret/o.vmrk"), ".eeg", _samples),
    ("vhdr", "endless samples"): _vhdr("/dev/zero"),
    ("vhdr", "endless markers"): _beside(_vhdr(), ".vmrk", _zero),
    ("vhdr", "a link"): _beside(_vhdr(), ".eeg", _secret),
    ("vhdr", "a pipe beside"): _beside(_vhdr(), ".eeg", _pipe),
    ("vhdr", "a pipe of markers"): _beside(_vhdr(), ".vmrk", _pipe),
    ("vhdr", "a billion channels"): _vhdr(channels=10**9),
    ("vhdr", "a header of 1 TiB"): lambda p: (_vhdr()(p), os.truncate(p, 2**40)),
    ("npz", "compressed zeros"): _npz,
    ("mat", "compressed zeros"): _mat,
    ("edf", "one fast signal of 500"): _edf,
    ("edf", "a device"): _zero,
    **{
        (kind, "a pipe"): _pipe
        for kind in (
            *("csv", "tsv", "jsonl", "json", "txt", "xlsx", "ods", "parquet", "sdf", "vhdr"),
            *("npz", "mat", "edf", "bdf", "fif", "graphs.jsonl", "recordings.csv", "csv.gz"),
        )
    },
    ("recordings.csv", "a file above"): lambda p: p.write_text(LISTED + "../secret/o.csv,a,1\n"),
    ("recordings.csv", "a link"): lambda p: (
        _secret(p.with_name("o.csv")), p.write_text(LISTED + "o.csv,a,1\n")
    ),
    ("smi", "metal atoms that are all bonded"): lambda p: p.write_text(
        ".".join("[Fe]" + "".join(f"%({100 * min(k, m) + max(k, m) + 10})"
                                  for m in range(12) if m != k) for k in range(12))
    ),
    ("smi", "99,999 hydrogens"): lambda p: p.write_text("CCO\n[CH99999]C\n"),
    ("smi", "a charge of 4,000 digits"): lambda p: p.write_text("CCO\n[C+" + "9" * 4000 + "]\n"),
    ("graphs.jsonl", "nodes without edges"): lambda p: p.write_text("".join(
        json.dumps({"edge_index": [[0], [1]], "num_nodes": 1_000_000, "y": k % 2}) + "\n"
        for k in range(300)
    )),
    ("graphs.jsonl", "a node of 10^15"): lambda p: p.write_text(
        json.dumps({"nodes": ["a"], "edges": [[0, 10**15]], "label": 1}) + "\n"
    ),
}  # fmt: skip
READERS: dict[str, Callable[[Path], object]] = {
    "sdf": lambda path: read_molecule_grid(path, None, None),
    "smi": read_molecules,
    "graphs.jsonl": read_graph_file,
    **dict.fromkeys(
        ("set", "vhdr", "npz", "mat", "edf", "bdf", "fif", "recordings.csv"),
        partial(read_recordings, seconds=1.0, is_labeled=False),
    ),
}
PATH = [[k, k + 1] for k in range(1999)]
GRID = [[20 * i + j, 20 * i + j + s] for i in range(20) for j in range(20)
        for s in (1, 20) if (j < 19 if s == 1 else i < 19)]  # fmt: skip
# what is drawn or left out with a sentence
DRAWINGS: dict[str, Callable[[], object]] = {
    "a path of 150 nodes": lambda: draw_graph([""] * 150, PATH[:149], [0.1] * 150),
    "a path of 400 nodes": lambda: draw_graph([""] * 400, PATH[:399], [0.1] * 400),
    "a path of 2,000 nodes": lambda: draw_graph([""] * 2000, PATH, [0.1] * 2000),
    "a star of 150 nodes": lambda: draw_graph(
        [""] * 150, [[0, k] for k in range(1, 150)], [0.1] * 150
    ),
    "a star of 2,000 nodes": lambda: draw_graph(
        [""] * 2000, [[0, k] for k in range(1, 2000)], [0.1] * 2000
    ),
    "a grid of 400 nodes": lambda: draw_graph([""] * 400, GRID, [0.1] * 400),
    "2,000 nodes without an edge": lambda: draw_graph([""] * 2000, [], [0.1] * 2000),
    "a clique of 400 nodes": lambda: draw_graph(
        [""] * 400, [[u, v] for u in range(400) for v in range(u)], [0.1] * 400
    ),
    "a dense graph": lambda: draw_graph(
        [""] * 150, [[u, v] for u in range(150) for v in range(u)], [0.1] * 150
    ),
    "a chain of 300 atoms": lambda: draw_shares(parse_smiles("C" * 300), {"atoms": [0.1] * 300}),
    "a chain of 2,000 atoms": lambda: draw_shares(
        parse_smiles("C" * 2000), {"atoms": [0.1] * 2000}
    ),
}  # fmt: skip


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield the files and the drawings, which are the same for every seed."""
    kept = list(FILES)[: max(1, round(share * len(FILES)))]
    for kind, what in kept:
        yield Case(kind, f"{kind}: {what}", partial(_file, kind, what))
    for what, draw in DRAWINGS.items():
        yield Case("drawing", f"drawing: {what}", partial(_drawing, draw))


def _file(kind: str, what: str) -> None:
    place = temporary_folder()
    for name in ("secret", "data"):
        (place / name).mkdir()
    for name in ("o.eeg", "o.fdt", "o.vmrk"):
        SAMPLES.tofile(place / "secret" / name)
    (place / "secret/o.csv").write_text("time,a\n" + "".join(f"{k / 50},1\n" for k in range(99)))
    path = place / "data" / (kind if "." in kind else f"d.{kind}")
    FILES[kind, what](path)
    read = READERS.get(kind, lambda path: read_grid(path, []))
    forbidden = [place / "secret", Path("/etc/passwd")]
    ended = forked(partial(_read, read, path), place, seconds=60, forbidden=forbidden)
    assert not ended.touched, f"{ended.touched[0]}: {ended.last}"
    assert ended.code != HANG, "no end within 60 s"
    assert ended.code == REFUSED, f"exit code {ended.code}: {ended.last}"
    assert len(ended.err.splitlines()) == 1, f"not one line: {ended.err[-300:]!r}"
    assert "memory" not in ended.err.lower().replace("far more memory", ""), ended.last
    assert ended.cpu < SECONDS, f"{ended.cpu:.1f} s of the processor: {ended.last}"


def _read(read: Callable[[Path], object], path: Path) -> int:
    try:
        read(path)
    except DataError as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


def _drawing(draw: Callable[[], object]) -> None:
    ended = forked(lambda: int(not draw()), _PLACE[0], seconds=60)
    assert ended.code == 0, f"exit code {ended.code}: {ended.last}"
    assert ended.cpu < SECONDS, f"{ended.cpu:.1f} s of the processor"


SUITE = Suite(
    "A small file declares gigabytes or names a file of another folder, or an object is large to "
    "draw: one line, or a sentence in place of the drawing; 5 s, 1 GiB and no other file",
    cases,
    setup,
)
