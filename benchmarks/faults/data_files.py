"""Damaged and hostile data files: what the readers of ``fit``, ``predict`` and ``evaluate`` do."""

from __future__ import annotations

import random
import re
import shutil
import sys
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from faults import Case, Suite, Unavailable, temporary_folder
from faults.data_bombs import BOMBS, CANARY
from faults.data_formats import FORMATS, Format
from faults.forked import HANG, forked
from representer.errors import DataError, RepresenterError, printable

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
_NUMBER = re.compile(rb"-?\d+")
_CELL = re.compile(rb"[^,\t\r\n]*")


def mutated(content: bytes, draw: random.Random, *, is_text: bool) -> bytes:
    """Return a file's content with one to three mutations."""
    data = bytearray(content)
    kinds = (_TEXT_KINDS if draw.random() < 0.8 else _KINDS) if is_text else _KINDS
    for _ in range(draw.randint(1, 3)):
        _mutate(data, draw.choice(kinds), draw)
    return bytes(data)


_KINDS = ("cut", "flip", "swap", "huge", "huge", "zero", "magic", "repeat", "footer")
_TEXT_KINDS = ("cut", "token", "token", "number", "cell", "line", "ends", "repeat")


def _mutate(data: bytearray, kind: str, draw: random.Random) -> None:
    at = draw.randrange(max(1, len(data)))
    length = draw.choice((1, 4, 16, 100))
    match kind:
        case "cut":
            del data[at:]
        case "flip":
            for _ in range(length if data else 0):
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        case "swap":
            other = draw.randrange(max(1, len(data)))
            first, second = data[at : at + length], data[other : other + length]
            data[at : at + length], data[other : other + length] = second, first
        case "huge":
            number = draw.choice(HUGE)
            at -= at % 4 * draw.randint(0, 1)
            data[at : at + len(number)] = number
        case "zero":
            data[at : at + length] = bytes(len(data[at : at + length]))
        case "magic":
            start = draw.choice(MAGIC)
            data[: len(start)] = start
        case "footer":  # where Parquet and zip declare sizes
            for _ in range(draw.choice((1, 3)) if data else 0):
                data[-1 - draw.randrange(min(len(data), 600))] = draw.randrange(256)
        case "token":
            data[at : at + draw.choice((0, 0, 1, 3))] = draw.choice(TOKENS)
        case "number":
            _replace(data, list(_NUMBER.finditer(data)), draw.choice(TOKENS), draw)
        case "cell":
            cells = [found for found in _CELL.finditer(data) if found[0]]
            _replace(data, cells, draw.choice((b"", *TOKENS)), draw)
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
            data[at:at] = data[at : at + length]


def _replace(
    data: bytearray, places: list[re.Match[bytes]], value: bytes, draw: random.Random
) -> None:
    if places:
        start, end = draw.choice(places).span()
        data[start:end] = value


MUTATED = 120  # files of each format
SECONDS, CPU_SECONDS = 60, 1.0  # the latter for a file of less than SMALL bytes
BOMB_SECONDS = 10.0
SMALL = 2**20
LONGEST = 700  # characters of a message, the path included
REFUSED, RAW, ANOTHER = 2, 70, 5
_TEXT = ("csv", "tsv", "jsonl", "SMILES", "graphs", "TU", "text", "GloVe", "word2vec")
_MEMORY = re.compile("allocate|allocation|memory|MemoryError", re.IGNORECASE)
_MORE = {  # names of formats with other suffixes
    "csv.gz": replace(FORMATS["csv"], file="table.csv.gz"),
    "jsonl.gz": replace(FORMATS["jsonl"], file="table.jsonl.gz"),
    "xlsx": replace(FORMATS["csv"], file="table.xlsx"),
}
_PLACE: list[Path] = []
_MISSING: dict[str, str] = {}  # formats that cannot be written here, with the reason


def setup() -> None:
    """Write and read a valid file of each format, which also imports every reader."""
    if _PLACE:
        return
    torch.set_num_threads(1)
    _PLACE.append(temporary_folder())
    for name, kind in FORMATS.items():
        path = _PLACE[0] / kind.file
        try:
            kind.write(path)
        except (ImportError, RuntimeError) as error:
            _MISSING[name] = str(error)
            continue
        rows = kind.read(path)
        expected = kind.reference(path, rows)
        assert expected is None or list(rows) == list(expected), name


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield the bombs, and mutated files of each format."""
    chosen = random.Random(seed).sample(sorted(BOMBS), max(1, round(share * len(BOMBS))))
    for name, what in chosen:
        yield Case(name, f"{name}: {what}", partial(_bomb, name, what))
    for number in range(max(1, round(share * MUTATED))):
        for name in FORMATS:
            draw = random.Random(f"{seed} {name} {number}")
            yield Case(name, f"{name} {number:04}", partial(_mutated, name, draw))


def _bomb(name: str, what: str) -> None:
    kind = _MORE.get(name) or FORMATS[name]
    path = _empty() / kind.file
    if name == "parquet" and "parquet" in _MISSING:
        raise Unavailable(_MISSING["parquet"])
    BOMBS[name, what](path)
    _attempt(replace(kind, reference=lambda path, rows: None), path, BOMB_SECONDS)


def _mutated(name: str, draw: random.Random) -> None:
    if name in _MISSING:
        raise Unavailable(_MISSING[name])
    kind = FORMATS[name]
    path = _empty() / kind.file
    valid = _PLACE[0] / kind.file
    if kind.file.endswith("/"):
        shutil.copytree(valid, path)
        changed = draw.choice(sorted(path.iterdir()))
        if draw.random() < 0.1:
            changed.unlink()
        else:
            changed.write_bytes(mutated(changed.read_bytes(), draw, is_text=True))
    else:
        path.write_bytes(mutated(valid.read_bytes(), draw, is_text=name in _TEXT))
    _attempt(kind, path)


def _empty() -> Path:
    place = _PLACE[0] / "place"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place


def _attempt(kind: Format, path: Path, most: float = CPU_SECONDS) -> None:
    ended = forked(partial(_read, kind, path), _PLACE[0], seconds=SECONDS)
    shown = ended.last
    assert not (path.parent / CANARY).exists(), f"code was executed: {shown}"
    assert not ended.touched, f"{ended.touched[0]}: {shown}"
    assert ended.code != HANG, f"no end within {SECONDS} s"
    assert ended.code in (0, REFUSED), f"exit code {ended.code}: {shown}"
    is_small = path.is_file() and path.stat().st_size < SMALL
    assert not is_small or ended.cpu < most, f"{ended.cpu:.1f} s of the processor: {shown}"
    if ended.code == REFUSED:
        assert len(ended.err.splitlines()) == 1, f"not one line: {ended.err[-300:]!r}"
        message = ended.err.rstrip("\n")
        assert len(message) < LONGEST + len(str(path)), f"{len(message)} characters: {shown}"
        assert printable(message) == message, f"control characters: {message!r}"
        assert path.name.partition(".")[0] in message, f"the file is not named: {message}"
        assert not _MEMORY.search(message.replace(str(path), "")), f"over 1 GiB: {message}"


def _read(kind: Format, path: Path) -> int:
    """Read a file in a child; return an exit code."""
    np.seterr(all="ignore")
    try:
        with warnings.catch_warnings(action="error"):
            rows = kind.read(path)
    except DataError as error:
        print(error, file=sys.stderr)
        return REFUSED
    except RepresenterError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return RAW
    except Exception:
        traceback.print_exc()
        return RAW
    try:
        expected = kind.reference(path, rows)
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


SUITE = Suite(
    "A data file was damaged or made to exhaust the machine: the rows that other code reads, or "
    "one line with the file; 1 s, 1 GiB and no code",
    cases,
    setup,
)
