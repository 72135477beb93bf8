"""Damaged and hostile data files: what the readers of ``fit``, ``predict`` and ``evaluate`` do.

Two suites: valid files with mutations, and files that are made to exhaust memory or time, to run
code, or to name files that are not theirs.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import re
import shutil
import struct
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from faults import Case, Suite, Unavailable, count_of, emptied, some, temporary_folder
from faults.formats import FORMATS, Format
from faults.processes import CANARY, REFUSED, Bomb, forked
from representer.data.graphs import read_graph_file
from representer.data.molecules import parse_smiles
from representer.data.molecules.table import read_molecule_grid, read_molecules
from representer.data.signals import read_recordings
from representer.data.tables import read_grid
from representer.errors import DataError, printable
from representer.report.pictures import draw_graph, draw_shares

MUTATED = 120  # files of each format
ANOTHER = 5  # exit code: other rows were read than are there
CPU_SECONDS, SECONDS, BOMB_SECONDS = 1.0, 5.0, 10.0  # the first for a file of less than SMALL bytes
SMALL = 2**20
LONGEST = 700  # characters of a message, the path included
GIB = 2**30
Write = Callable[[Path], object]

_PLACE: list[Path] = []
_MISSING: dict[str, str] = {}  # formats that cannot be written here, with the reason
_MEMORY = re.compile("allocate|allocation|memory", re.IGNORECASE)


def setup() -> None:
    """Write and read a valid file of each format; the seconds of cases are those of reading."""
    if _PLACE:
        return
    import mne.io
    import python_calamine

    assert mne.io, python_calamine
    torch.set_num_threads(1)
    _PLACE.append(temporary_folder())
    for name, form in FORMATS.items():
        path = _PLACE[0] / form.file
        try:
            form.write(path)
        except (ImportError, RuntimeError) as error:
            _MISSING[name] = str(error)
            continue
        rows = form.read(path)
        expected = form.reference(path, rows)
        assert expected is None or list(rows) == list(expected), name
    eeg({"data": SAMPLES.T})(_PLACE[0] / "warm.set")
    READERS["set"](_PLACE[0] / "warm.set")


def tried(read: Callable[[], object], path: Path, *codes: int, cpu: float) -> None:
    """Read a file in a child: no code, no other file, and one line that names it if it refuses."""
    forbidden = [path.parent.parent / "secret", Path("/etc/passwd")]
    ended = forked(read, _PLACE[0], forbidden=forbidden, refuses=DataError)
    assert not (path.parent / CANARY).exists(), f"code was executed: {ended.last}"
    ended.require(*codes, cpu=cpu)
    if ended.code == REFUSED:
        message = ended.err.removeprefix("error: ").rstrip("\n")
        assert len(message) < LONGEST + len(str(path)), f"{len(message)} characters: {ended.last}"
        assert printable(message) == message, f"control characters: {message!r}"
        assert path.name.partition(".")[0] in message, f"the file is not named: {message}"
        said = message.replace(str(path), "").replace("far more memory", "")
        assert not _MEMORY.search(said), f"over 1 GiB: {message}"


def compared(form: Format, path: Path) -> int:
    """Read a file, which must hold the rows that other code reads; return an exit code."""
    np.seterr(all="ignore")
    with warnings.catch_warnings(action="error"):
        rows = form.read(path)
    try:
        expected = form.reference(path, rows)
    except AssertionError as error:
        print(f"read in silence: {error}", file=sys.stderr)
        return ANOTHER
    except Exception:
        return 0  # what the other code cannot read
    if expected is None or list(expected) == list(rows):
        return 0
    pairs = zip([*expected, None], [*rows, None], strict=False)
    first = next((f"{a!r:.90} and not {b!r:.90}" for a, b in pairs if a != b), "fewer rows")
    print(f"the file holds {first}", file=sys.stderr)
    return ANOTHER


# Mutations of valid files.

HUGE = (
    *(b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x40"),
    *(b"\x40\x00\x00\x00", b"\xff" * 8, b"\x00\x00\x00\x00\x00\x00\x00\x40", b"9" * 8),
    b"(99999999999,)",
)
MAGIC = (
    *(b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"MATLAB 5.0 MAT-f", b"PAR1", b"0       "),
    *(b"\x1f\x8b", b"\xef\xbb\xbf", b"\xff\xfe", b"BZh9", b"\xfd7zXZ\x00"),
)
TOKENS = (
    *(b'"', b'""', b",", b";", b"\t", b"\r", b"\n", b"\r\n", b"\n\n", b"\0", b"\xff", b"\xe2\x80"),
    *(b"nan", b"inf", b"-1", b"1e400", b"1_000", "١".encode(), b"9" * 400, b"=1+1", b"\x1b[2J"),
    *(b"[", b"]", b"{", b"}", b"null", b"true", b"NaN", b'"\\ud800"', b"[" * 5000, b"\\u0000"),
    *(b"[[1,2],[1,2]]", b'"text":', b"99999999999999999999", b"0", b" ", b"\xc2\xa0", b"\x85"),
    *(b"C1CC", b"[Xx]", b"*", b"(((((", b"%99", b"[999H+99]", b"C.C", b"\xe2\x80\xa8"),
)
OF_BYTES = ("cut", "flip", "swap", "huge", "huge", "zero", "magic", "repeat", "footer")
OF_TEXT = ("cut", "token", "token", "number", "cell", "line", "ends", "repeat")
TEXTS = ("csv", "tsv", "jsonl", "SMILES", "graphs", "TU", "text", "GloVe", "word2vec")


def mutated(content: bytes, draw: random.Random, *, is_text: bool) -> bytes:
    """Return a file's content with one to three mutations."""
    data = bytearray(content)
    names = OF_TEXT if is_text and draw.random() < 0.8 else OF_BYTES
    for _ in range(draw.randint(1, 3)):
        mutate(data, draw.choice(names), draw)
    return bytes(data)


def mutate(data: bytearray, name: str, draw: random.Random) -> None:
    start = draw.randrange(max(1, len(data)))
    length = draw.choice((1, 4, 16, 100))

    def replace(pattern: bytes, value: Callable[[], bytes]) -> None:
        spans = [match.span() for match in re.finditer(pattern, data) if match[0]]
        new = value()
        if spans:
            first, last = draw.choice(spans)
            data[first:last] = new

    match name:
        case "cut":
            del data[start:]
        case "flip":
            for _ in range(length if data else 0):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        case "swap":
            other = draw.randrange(max(1, len(data)))
            first, second = data[start : start + length], data[other : other + length]
            data[start : start + length], data[other : other + length] = second, first
        case "huge":
            number = draw.choice(HUGE)
            start -= start % 4 * draw.randint(0, 1)
            data[start : start + len(number)] = number
        case "zero":
            data[start : start + length] = bytes(len(data[start : start + length]))
        case "magic":
            magic = draw.choice(MAGIC)
            data[: len(magic)] = magic
        case "footer":  # where Parquet and zip declare sizes
            for _ in range(draw.choice((1, 3)) if data else 0):
                data[-1 - draw.randrange(min(len(data), 600))] = draw.randrange(256)
        case "token":
            data[start : start + draw.choice((0, 0, 1, 3))] = draw.choice(TOKENS)
        case "number":
            replace(rb"-?\d+", lambda: draw.choice(TOKENS))
        case "cell":
            replace(rb"[^,\t\r\n]*", lambda: draw.choice((b"", *TOKENS)))
        case "line":
            lines = data.split(b"\n")
            chosen = draw.randrange(len(lines))
            match draw.randrange(4):
                case 0:
                    del lines[chosen]
                case 1:
                    lines.insert(chosen, lines[draw.randrange(len(lines))])
                case 2:
                    lines[chosen] += b",further"
                case _:
                    lines[chosen] = lines[chosen].rpartition(b",")[0]
            data[:] = b"\n".join(lines)
        case "ends":
            data[:] = data.replace(b"\n", draw.choice((b"\r\n", b"\r", b"\n\n", b"\x85")))
        case _:
            data[start:start] = data[start : start + length]


def read_mutated(name: str, draw: random.Random) -> None:
    if name in _MISSING:
        raise Unavailable(_MISSING[name])
    form = FORMATS[name]
    path, valid = emptied(_PLACE[0] / "place") / form.file, _PLACE[0] / form.file
    if form.file.endswith("/"):
        shutil.copytree(valid, path)
        changed = draw.choice(sorted(path.iterdir()))
        if draw.random() < 0.1:
            changed.unlink()
        else:
            changed.write_bytes(mutated(changed.read_bytes(), draw, is_text=True))
    else:
        path.write_bytes(mutated(valid.read_bytes(), draw, is_text=name in TEXTS))
    attempt(form, path, CPU_SECONDS)


def attempt(form: Format, path: Path, cpu: float) -> None:
    is_small = path.is_file() and path.stat().st_size < SMALL
    limit = cpu if is_small else float("inf")
    tried(partial(compared, form, path), path, 0, REFUSED, cpu=limit)


# What writes a file that is made to exhaust memory or time.


def put(content: str | bytes) -> Write:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def secret(path: Path) -> None:
    path.symlink_to(path.parent.parent / f"secret/o{path.suffix}")


def samples(path: Path) -> None:
    SAMPLES.tofile(path)


def beside(write: Write, suffix: str, make: Write) -> Write:
    """Return what writes a file and, beside it, another one."""
    return lambda path: (make(path.with_suffix(suffix)), write(path))


def expanding(content: bytes, times: int) -> Write:
    def write(path: Path) -> None:
        with gzip.open(path, "wb") as file:
            for _ in range(times):
                file.write(content)

    return write


def code_of(path: Path) -> bytes:
    return pickle.dumps(Bomb(path.parent))


def bomb(path: Path) -> None:
    path.write_bytes(code_of(path))


def npy(head: str, data: bytes = b"") -> bytes:
    text = head.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def form_of(shape: str, descr: str = "'<f4'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


def saved(value: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, np.asarray(value))
    return content.getvalue()


def arrays(x: bytes | Callable[[Path], bytes] | None, **changes: Any) -> Write:
    """Return what writes recordings whose array X is the bytes, or 512 MiB of zeros if None."""

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            fields = {"y": ["a", "b"] * 3, "subject": [0, 0, 1, 1, 2, 2], "fs": 100.0} | changes
            for name, value in fields.items():
                archive.writestr(f"{name}.npy", saved(value))
            if x is not None:
                archive.writestr("X.npy", x(path) if callable(x) else x)
                return
            with archive.open("X.npy", "w", force_zip64=True) as file:
                file.write(npy(form_of(f"(6, 1, {GIB // 12})")))
                for _ in range(512):
                    file.write(bytes(GIB // 1024))

    return write


def shaped(shape: str, descr: str = "'<f4'", data: bytes = b"", **changes: Any) -> Write:
    return arrays(npy(form_of(shape, descr), data), **changes)


def archive(**members: str | bytes) -> Write:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in members.items():
                file.writestr(name, content)

    return write


def xlsx(*sheets: str, texts: str = "") -> Write:
    """Return what writes a workbook by hand; its sheets hold the XML of rows.

    Cells name the ``texts`` by their number.
    """
    schemas = "http://schemas.openxmlformats.org"
    office = f"{schemas}/officeDocument/2006/relationships"
    main, package = f"{schemas}/spreadsheetml/2006/main", f"{schemas}/package/2006/relationships"
    numbers = range(1, len(sheets) + 1)
    named = "".join(f'<sheet name="S{k}" sheetId="{k}" r:id="r{k}"/>' for k in numbers)

    def links(*targets: tuple[str, str, str]) -> str:
        inner = "".join(f'<Relationship Id="{name}" Type="{office}/{what}" Target="{target}"/>'
                        for name, what, target in targets)  # fmt: skip
        return f'<Relationships xmlns="{package}">{inner}</Relationships>'

    return archive(**{
        "_rels/.rels": links(("r", "officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{named}</sheets>'
                           "</workbook>",
        "xl/_rels/workbook.xml.rels":
            links(*((f"r{k}", "worksheet", f"worksheets/s{k}.xml") for k in numbers)),
        **{
            f"xl/worksheets/s{k}.xml":
                f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>'
            for k, rows in zip(numbers, sheets, strict=True)
        },
        "xl/sharedStrings.xml": f'<sst xmlns="{main}">{texts}</sst>',
    })  # fmt: skip


def cell(place: str, content: str = "<v>1</v>") -> str:
    return f'<row r="{place.lstrip("XFD")}"><c r="{place}">{content}</c></row>'


def ods(*rows: str) -> Write:
    names = "".join(f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
                    for name in ("office", "table", "text"))  # fmt: skip
    body = f'<table:table table:name="S">{"".join(rows)}</table:table>'
    body = f"<office:body><office:spreadsheet>{body}</office:spreadsheet></office:body>"
    return archive(**{
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
        "content.xml": f"<office:document-content{names}>{body}</office:document-content>",
    })  # fmt: skip


def repeated(rows: int, columns: int, content: str = "<text:p>x</text:p>") -> str:
    type_of = ' office:value-type="string"' if content else ""
    inner = f'<table:table-cell table:number-columns-repeated="{columns}"{type_of}>{content}'
    row = f'<table:table-row table:number-rows-repeated="{rows}">{inner}</table:table-cell>'
    return f"{row}</table:table-row>"


def lying(path: Path) -> None:
    """Write an archive whose directory declares ten bytes for a gigabyte."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("xl/workbook.xml", "w", force_zip64=True) as file,
    ):
        for _ in range(1024):
            file.write(b" " * (1 << 20))
    content = bytearray(path.read_bytes())
    start = content.rindex(b"PK\x01\x02")
    content[start + 24 : start + 28] = struct.pack("<I", 10)
    path.write_bytes(content)


def columns(make: Callable[[Any], Any], **options: Any) -> Write:
    """Return what writes columns that a function makes with pyarrow."""

    def write(path: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.table(make(pa)), path, **options)

    return write


def one_word(kind: str, size: int, **options: Any) -> Write:
    """Return what writes a dictionary of one word, and 20,000 rows of it."""

    def make(pa: Any) -> Any:
        words = pa.array(["a" * size if "string" in kind else b"a" * size], getattr(pa, kind)())
        column = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), words)
        return {"text": column, "label": ["x", "y"] * 10_000}

    pages = {"dictionary_pagesize_limit": 1 << 30, "data_page_size": 1 << 30}
    return columns(make, compression="zstd", **pages, **options)


def long_dictionary(pa: Any) -> Any:
    numbers = pa.array(np.zeros(900_000, np.int32))
    labels = pa.array(np.arange(900_000) % 2)
    return {"text": pa.DictionaryArray.from_arrays(numbers, ["x" * 10_000]),
            "label": pa.DictionaryArray.from_arrays(labels, ["a", "b"])}  # fmt: skip


def many_rows(pa: Any) -> Any:
    return dict.fromkeys(("text", "label"), pa.array(np.zeros(50_000_000, np.int8)))


def wide_cells(pa: Any) -> Any:
    return {"text": pa.array([b"a" * (1 << 20)] * 200, pa.binary(1 << 20))}


def tu(**files: str) -> Write:
    def write(folder: Path) -> None:
        folder.mkdir()
        for name, content in ({"A": "1, 2\n2, 1\n", "graph_indicator": "1\n1\n"} | files).items():
            (folder / f"T_{name}.txt").write_text(content, encoding="utf-8")

    return write


def sdf(records: int) -> Write:
    molecule = "\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0 0.0 0.0 C 0 0\nM  END\n"
    return put("".join(f"{molecule}> <p{k}>\n1\n\n$$$$\n" for k in range(records)))


def eeg(fields: dict[str, Any], *, is_packed: bool = False) -> Write:
    def write(path: Path) -> None:
        from scipy.io import savemat

        own: dict[str, Any] = {
            "setname": "x", "nbchan": 2.0, "trials": 1.0, "pnts": 1000.0, "srate": 100.0,
            "xmin": 0.0, "xmax": 10.0, "chanlocs": [], "event": [], "icaweights": [],
        }  # fmt: skip
        savemat(path, {"EEG": own | fields}, appendmat=False, do_compression=is_packed)

    return write


def cells_of_nothing(path: Path) -> None:
    """Write a MATLAB file with a structure EEG that declares two billion values."""

    def element(number: int, data: bytes) -> bytes:
        return struct.pack("<II", number, len(data)) + data + bytes(-len(data) % 8)

    head = element(6, struct.pack("<II", 2, 0)) + element(5, struct.pack("<ii", 2**31 - 1, 1))
    fields = element(5, struct.pack("<i", 8)) + element(1, b"data\0\0\0\0")
    content = zlib.compress(element(14, head + element(1, b"EEG") + fields))
    start = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    path.write_bytes(start + struct.pack("<II", 15, len(content)) + content)


def vhdr(data: str = "d.eeg", marker: str = "d.vmrk", channels: int = 2) -> Write:
    return put(
        "Brain Vision Data Exchange Header File Version 1.0\n[Common Infos]\nCodepage=UTF-8\n"
        f"DataFile={data}\nMarkerFile={marker}\nDataFormat=BINARY\n"
        f"DataOrientation=MULTIPLEXED\nNumberOfChannels={channels}\nSamplingInterval=10000\n"
        "[Binary Infos]\nBinaryFormat=IEEE_FLOAT_32\n[Channel Infos]\nCh1=a,,1,uV\n"
    )


def packed_zeros(path: Path) -> None:
    from scipy.io import savemat

    savemat(path, {"X": np.zeros((6, 1, 1 << 23))}, do_compression=True)


def fast_signal(path: Path) -> None:
    """Write 500 signals with one sample a second beside one with 2,000."""
    count, head = 500, b"0".ljust(252)
    fields = b"".join(b"2000    " if k == 0 else b"1       " for k in range(count))
    columns = b"0".ljust(216 * count) + fields + b" " * (32 * count)
    path.write_bytes(head + str(count).encode().ljust(4) + columns + bytes(2 * 2499 * 200))


def metal_atoms() -> str:
    """Return atoms that are all bonded."""
    return ".".join(
        "[Fe]" + "".join(f"%({100 * min(k, m) + max(k, m) + 10})" for m in range(12) if m != k)
        for k in range(12)
    )


SAMPLES = np.random.default_rng(0).normal(size=(1000, 2)).astype("<f4")
HEAD = "text,label\n" + "wave,a\nstar,b\n" * 9
RECORD = '{"text": "wave", "label": "a"}\n{"text": "star", "label": "b"}\n'
GRAPH = '{"nodes": ["a"], "edges": [], "label": "x"}\n'
# by format and name: what writes the file instead of a valid one, which may be read or refused
BOMBS: dict[tuple[str, str], Write] = {
    ("csv", "a cell of 50 MB"): lambda p: p.write_text(f'{HEAD}"{"x" * 50_000_000}",a\n'),
    ("csv", "a line of 20 MB"): lambda p: p.write_text(f"{HEAD}{'x,' * 10_000_000}\n"),
    ("csv", "100,000 columns"): put("\n".join(["x," * 100_000] * 3)),
    ("csv", "UTF-16"): put(HEAD.encode("utf-16")),
    ("csv", "latin-1"): put((HEAD + "grün,a\n").encode("latin-1")),
    ("csv", "an open quote"): lambda p: p.write_text(HEAD + '"' + "x,a\n" * 1_000_000),
    ("csv", "a header alone"): put("text,label\n"),
    ("csv", "rows too long"): put("text,label\n" + "wave,a,\nstar,b,\n" * 9),
    ("csv", "one name twice"): put("text,text,label\n" + "wave,x,a\nstar,y,b\n" * 9),
    ("csv", "gzip"): put(gzip.compress(HEAD.encode())),
    ("csv", "a pipe"): pipe,
    ("csv", "a device"): zero,
    ("csv", "a loop"): lambda p: p.symlink_to(p),
    ("csv", "a folder"): lambda p: p.mkdir(),
    ("csv", "1 TB of nothing"): lambda p: (p.write_text(HEAD), os.truncate(p, 2**40)),
    ("csv.gz", "one expanding line"): expanding(b"x" * 2**20, 1024),
    ("csv.gz", "expanding rows"): expanding(b"wave,a\n" * 2**17, 32),
    ("jsonl.gz", "expanding rows"): expanding(RECORD.encode() * 2**14, 32),
    ("xlsx", "a spreadsheet"): archive(**{"xl/a.xml": "<a/>"}),
    ("jsonl", "deep arrays"): put('{"text": ' + "[" * 100_000 + "]" * 100_000 + "}\n"),
    ("jsonl", "deep objects"): put('{"a":' * 100_000),
    ("jsonl", "a long number"): put(RECORD + f'{{"text": "x", "label": {"9" * 100_000}}}\n'),
    ("jsonl", "an infinite number"): put(RECORD + '{"text": "x", "label": 1e999}\n'),
    ("jsonl", "not a number"): put(RECORD + '{"text": "x", "label": NaN}\n'),
    ("jsonl", "a key twice"): put(RECORD + '{"text": "x", "text": "y", "label": "a"}\n'),
    ("jsonl", "half a surrogate"): put(RECORD + '{"text": "\\ud800", "label": "a"}\n'),
    ("jsonl", "an array"): put(RECORD + '["x", "a"]\n'),
    ("jsonl", "many keys"): put(json.dumps({f"k{k}": "x" for k in range(200_000)}) + "\n"),
    ("parquet", "a long dictionary"): columns(long_dictionary),
    ("parquet", "50 million rows"): columns(many_rows),
    ("parquet", "a long footer"): put(b"PAR1" + b"\0" * 50 + b"\xff\xff\xff\x7fPAR1"),
    ("SMILES", "a long molecule"): put("smiles,length\n" + "C" * 200_000 + ",1\n"),
    ("SMILES", "deep branches"): put("smiles,length\n" + "C(" * 50_000 + ")" * 50_000 + ",1\n"),
    ("SMILES", "text after a molecule"): put("smiles,length\nCCO CCCCCC,1\n"),
    ("SMILES", "many rings"): put("smiles,length\n" + "C1CC1" * 20_000 + ",1\n"),
    ("graphs", "a node of 10^18"): put(GRAPH.replace("[]", f"[[0, {10**18}]]")),
    ("graphs", "deep features"): put(GRAPH.replace('"a"', "[" * 50_000 + "]" * 50_000)),
    ("graphs", "true as a node"): put(GRAPH.replace("[]", "[[true, false]]")),
    ("graphs", "a huge feature"): put(GRAPH.replace('"a"', f"[{'9' * 400}]")),
    ("TU", "a graph of 10^15"): tu(graph_indicator=f"1\n{10**15}\n"),
    ("TU", "a node of 10^15"): tu(A=f"1, {10**15}\n"),
    ("TU", "a graph of 10^8"): tu(graph_indicator=f"1\n{10**8}\n"),
    ("TU", "no edges"): tu(A=""),
    ("TU", "a linked file"): lambda p: (tu()(p), zero(p / "T_node_labels.txt")),
    ("text", "a line of 50 MB"): lambda p: p.write_text("x " * 25_000_000),
    ("text", "bytes"): put(bytes(range(256)) * 100),
    ("GloVe", "a million values"): lambda p: p.write_text("word" + " 1.0" * 1_000_000 + "\n"),
    ("GloVe", "a huge value"): put("a 1.0 2.0\nb 1e39 2.0\n"),
    ("word2vec", "10^9 words"): put("999999999 999999999\na 1.0\n"),
    ("npz", "10^11 elements"): shaped("(99999999999,)"),
    ("npz", "a product that wraps"): shaped("(4294967296, 4294967296)"),
    ("npz", "a negative shape"): shaped("(-1, -1)", data=bytes(4)),
    ("npz", "nothing times 10^12"): shaped("(0, 1000000000000)"),
    ("npz", "empty elements"): shaped("(99999999999,)", "'|S0'"),
    ("npz", "large elements"): shaped("(1,)", "'|V2000000000'"),
    ("npz", "fields"): shaped("(1,)", "[('a', '<f4')]", bytes(4)),
    ("npz", "objects"): arrays(lambda p: npy(form_of("(1,)", "'|O'"), code_of(p))),
    ("npz", "a deep header"): arrays(npy("(" * 60_000)),
    ("npz", "a header of 2 GiB"): arrays(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{"),
    ("npz", "code in a header"): arrays(npy("__import__('os').system('true')\n")),
    ("npz", "512 MiB of zeros"): arrays(None, y=np.zeros(6), subject=np.zeros(6), fs=np.zeros(6)),
    ("npz", "dates"): shaped("(6, 1, 5)", "'<M8[s]'", bytes(240)),
    ("npz", "complex numbers"): shaped("(6, 1, 5)", "'<c8'", bytes(240)),
    ("npz", "no rate"): shaped("(6, 1, 5)", data=bytes(120), fs=np.nan),
    ("npz", "rates"): shaped("(6, 1, 5)", data=bytes(120), fs=[1.0, 2.0]),
    ("npz", "a pickle"): bomb,
    ("npz", "a pipe"): pipe,
    ("npz of vectors", "objects"): lambda p: np.savez(
        p, words=np.array([Bomb(p.parent)], dtype=object), vectors=np.ones((1, 3))
    ),
    ("mat", "a pickle"): bomb,
    ("fif", "a pipe"): pipe,
    ("edf", "a header of 10^8 records"): put(b"0       " + b"99999999" * 60),
}  # fmt: skip
SUFFIXES = {  # other formats than those of valid files
    "csv.gz": FORMATS["csv"]._replace(file="table.csv.gz"),
    "jsonl.gz": FORMATS["jsonl"]._replace(file="table.jsonl.gz"),
    "xlsx": FORMATS["csv"]._replace(file="table.xlsx"),
}


def read_bomb(name: str, what: str) -> None:
    form = (FORMATS | SUFFIXES)[name]._replace(reference=lambda path, rows: None)
    path = emptied(_PLACE[0] / "place") / form.file
    if name in _MISSING:
        raise Unavailable(_MISSING[name])
    BOMBS[name, what](path)
    attempt(form, path, BOMB_SECONDS)


def damaged(seed: int, share: float) -> Iterator[Case]:
    """Yield the bombs, and mutated files of each format."""
    for name, what in some(sorted(BOMBS), share, seed):
        yield Case(name, f"{name}: {what}", partial(read_bomb, name, what))
    for number in range(count_of(share, MUTATED)):
        for name in FORMATS:
            draw = random.Random(f"{seed} {name} {number}")
            yield Case(name, f"{name} {number:04}", partial(read_mutated, name, draw))


LISTED = "file,label,subject\n"
FAR = cell("A1", '<v>1</v></c><c r="B1"><v>2</v>')
PIPES = (
    "csv", "tsv", "jsonl", "json", "txt", "xlsx", "ods", "parquet", "sdf", "vhdr", "npz", "mat",
    "edf", "bdf", "fif", "graphs.jsonl", "recordings.csv", "csv.gz",
)  # fmt: skip
# by format and name: what writes a file that must be refused
FILES: dict[tuple[str, str], Write] = {
    ("xlsx", "a cell in the last corner"): xlsx(FAR + cell("XFD1048576")),
    ("xlsx", "a cell far away"): xlsx(FAR + cell("XFD1000") + cell("XFD20000")),
    ("xlsx", "a far cell on the second sheet"): xlsx(FAR, cell("XFD1048576")),
    ("xlsx", "many sheets"): xlsx(*[FAR + cell("XFD900")] * 20),
    ("xlsx", "cells without a place"): xlsx(
        f"<row r='1048575'/><row>{'<c/>' * 999}<c><v>1</v></c></row>"
    ),
    ("xlsx", "a text that cells share"): xlsx(
        FAR + '<row><c t="s"><v> +0</v></c></row>' * 20_000,
        texts=f"<si><t>{'a' * (5 << 20)}</t></si>",
    ),
    ("xlsx", "a lying directory"): lying,
    ("xlsx", "a binary workbook"): archive(**{"xl/workbook.bin": "x"}),
    ("xlsx", "a gigabyte of blanks"): lambda p: archive(**{"xl/workbook.xml": " " * (1 << 29)})(p),
    ("xlsx", "entities"): xlsx('<!DOCTYPE a [<!ENTITY b "c">]><row>&b;</row>'),
    ("xlsx", "an open document"): ods(repeated(1_000_000, 1000)),
    ("ods", "repeated rows"): ods(repeated(1_000_000, 1000)),
    ("ods", "repeated columns"): ods(repeated(1000, 1_000_000)),
    ("ods", "a text that rows repeat"): ods(
        repeated(20_000, 2, f"<text:p>{'a' * (1 << 20)}</text:p>")
    ),
    ("ods", "two billion blanks"): ods(
        repeated(1, 1, '<text:p><text:s text:c="2000000000"/></text:p>')
    ),
    ("ods", "empty rows before a row"): ods(repeated(1_000_000, 1, ""), repeated(1, 1000)),
    ("parquet", "texts"): one_word("string", 15 << 20),
    ("parquet", "large texts"): one_word("large_string", 15 << 20),
    ("parquet", "bytes"): one_word("binary", 15 << 20),
    ("parquet", "bytes without a schema"): one_word("binary", 15 << 20, store_schema=False),
    ("parquet", "large bytes"): one_word("large_binary", 15 << 20),
    ("parquet", "one page of 20 MiB"): one_word("binary", 20 << 20),
    ("parquet", "in groups"): one_word("binary", 1 << 20, row_group_size=2000),
    ("parquet", "wide cells"): columns(wide_cells, compression="zstd"),
    ("sdf", "30,000 properties"): sdf(30_000),
    ("jsonl", "100,000 keys that others lack"): put(
        json.dumps({f"k{k}": 1 for k in range(100_000)}) + "\n" + "{}\n" * 30_000
    ),
    ("set", "compressed zeros"): lambda p: eeg(
        {"data": SAMPLES.T, "icaweights": np.zeros(100 << 20, np.float32)}, is_packed=True
    )(p),
    ("set", "a structure of nothing"): cells_of_nothing,
    ("set", "a billion channels"): eeg({"data": SAMPLES.T, "nbchan": 1e9}),
    ("set", "a trillion samples"): beside(eeg({"data": "d.fdt", "pnts": 1e12}), ".fdt", samples),
    ("set", "a billion trials"): eeg({"data": SAMPLES.T, "trials": 1e9}),
    ("set", "a file above"): eeg({"data": "../secret/o.fdt"}),
    ("set", "trials above"): eeg({"data": "../secret/o.fdt", "trials": 2.0}),
    ("set", "a link"): beside(eeg({"data": "d.fdt"}), ".fdt", secret),
    ("set", "a pipe beside"): beside(eeg({"data": "d.fdt"}), ".fdt", pipe),
    ("set", "a pipe"): pipe,
    ("vhdr", "a file above"): vhdr("../secret/o.eeg"),
    ("vhdr", "a file of the system"): vhdr("/etc/passwd"),
    ("vhdr", "markers above"): beside(vhdr(marker="../secret/o.vmrk"), ".eeg", samples),
    ("vhdr", "endless samples"): vhdr("/dev/zero"),
    ("vhdr", "endless markers"): beside(vhdr(), ".vmrk", zero),
    ("vhdr", "a link"): beside(vhdr(), ".eeg", secret),
    ("vhdr", "a pipe beside"): beside(vhdr(), ".eeg", pipe),
    ("vhdr", "a pipe of markers"): beside(vhdr(), ".vmrk", pipe),
    ("vhdr", "a billion channels"): vhdr(channels=10**9),
    ("vhdr", "a header of 1 TiB"): lambda p: (vhdr()(p), os.truncate(p, 2**40)),
    ("npz", "compressed zeros"): lambda p: archive(
        **{"X.npy": saved(np.zeros((6, 1, 1 << 24), np.float32))}
    )(p),
    ("mat", "compressed zeros"): packed_zeros,
    ("edf", "one fast signal of 500"): fast_signal,
    ("edf", "a device"): zero,
    **{(name, "a pipe"): pipe for name in PIPES},
    ("recordings.csv", "a file above"): put(LISTED + "../secret/o.csv,a,1\n"),
    ("recordings.csv", "a link"): lambda p: (
        secret(p.with_name("o.csv")), p.write_text(LISTED + "o.csv,a,1\n")
    ),
    ("smi", "metal atoms that are all bonded"): put(metal_atoms()),
    ("smi", "99,999 hydrogens"): put("CCO\n[CH99999]C\n"),
    ("smi", "a charge of 4,000 digits"): put("CCO\n[C+" + "9" * 4000 + "]\n"),
    ("graphs.jsonl", "nodes without edges"): put("".join(
        json.dumps({"edge_index": [[0], [1]], "num_nodes": 1_000_000, "y": k % 2}) + "\n"
        for k in range(300)
    )),
    ("graphs.jsonl", "a node of 10^15"): put(GRAPH.replace("[]", f"[[0, {10**15}]]")),
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


def read_file(name: str, what: str) -> None:
    place = temporary_folder()
    for folder in ("secret", "data"):
        (place / folder).mkdir()
    for suffix in ("eeg", "fdt", "vmrk"):
        samples(place / f"secret/o.{suffix}")
    (place / "secret/o.csv").write_text("time,a\n" + "".join(f"{k / 50},1\n" for k in range(99)))
    path = place / "data" / (name if "." in name else f"d.{name}")
    FILES[name, what](path)
    read = READERS.get(name, lambda path: read_grid(path, []))
    tried(lambda: (read(path), 0)[1], path, REFUSED, cpu=SECONDS)


GRID = [[20 * i + j, 20 * i + j + s] for i in range(20) for j in range(20)
        for s in (1, 20) if (j < 19 if s == 1 else i < 19)]  # fmt: skip
EDGES: dict[str, Callable[[int], list[list[int]]]] = {  # of n nodes
    "path": lambda n: [[k, k + 1] for k in range(n - 1)],
    "star": lambda n: [[0, k] for k in range(1, n)],
    "clique": lambda n: [[u, v] for u in range(n) for v in range(u)],
    "grid": lambda n: GRID, "nothing": lambda n: [],
}  # fmt: skip
# what is drawn or left out with a sentence
OBJECTS = {
    "a path of 150 nodes": ("path", 150), "a path of 400 nodes": ("path", 400),
    "a path of 2,000 nodes": ("path", 2000), "a star of 150 nodes": ("star", 150),
    "a star of 2,000 nodes": ("star", 2000), "a grid of 400 nodes": ("grid", 400),
    "2,000 nodes without an edge": ("nothing", 2000), "a clique of 400 nodes": ("clique", 400),
    "a dense graph": ("clique", 150), "a chain of 300 atoms": ("atoms", 300),
    "a chain of 2,000 atoms": ("atoms", 2000),
}  # fmt: skip


def drawn(what: str, n: int) -> int:
    if what == "atoms":
        return int(not draw_shares(parse_smiles("C" * n), {"atoms": [0.1] * n}))
    return int(not draw_graph([""] * n, EDGES[what](n), [0.1] * n))


def draw_object(what: str) -> None:
    forked(partial(drawn, *OBJECTS[what]), _PLACE[0]).require(0, cpu=SECONDS)


def hostile(seed: int, share: float) -> Iterator[Case]:
    """Yield the files and the drawings, which are the same for every seed."""
    for name, what in list(FILES)[: count_of(share, len(FILES))]:
        yield Case(name, f"{name}: {what}", partial(read_file, name, what))
    for what in OBJECTS:
        yield Case("drawing", f"drawing: {what}", partial(draw_object, what))


SUITES = {
    "data_files": Suite(
        "A data file was damaged or made to exhaust the machine: the rows that other code reads, "
        "or one line with the file; 1 s, 1 GiB and no code",
        damaged,
        setup,
    ),
    "hostile_formats": Suite(
        "A small file declares gigabytes or names a file of another folder, or an object is large "
        "to draw: one line, or a sentence in place of the drawing; 5 s, 1 GiB and no other file",
        hostile,
        setup,
    ),
}
