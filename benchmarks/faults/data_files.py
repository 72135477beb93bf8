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
from faults.data_mutations import mutated
from faults.forked import HANG, forked
from representer.errors import DataError, RepresenterError, printable

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
