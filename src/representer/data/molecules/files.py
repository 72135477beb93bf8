"""Files of molecules as tables: SDF and molfiles, files of SMILES, and tables themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

from representer.data.molecules.columns import SMILES_NAMES
from representer.data.tables import Grid, read_grid
from representer.data.tables.formats import format_of
from representer.data.tables.grid import BLANK, Dropped, require_filled
from representer.data.tables.source import physical_lines
from representer.errors import DataError, MissingExtraError

SMILES, NAME = "smiles", "name"
_PROPERTY = re.compile(r">.*<([^<]+)>")


def read_molecule_grid(
    path: str | PathLike[str], smiles: str | None, target: str | None, **layout: Any
) -> tuple[Grid, str | None]:
    """Return the cells of a table, of an SDF file or of a file of SMILES, and the column to use.

    An SDF file has the columns ``smiles``, ``name``, if it gives names, and its properties; the
    SMILES of a structure that cannot be read is empty. A file of SMILES has ``smiles`` and
    ``name``, what follows the first blank of a line.

    Args:
        path: The file; ``.sdf``, ``.sd``, ``.mol``, ``.smi`` and ``.smiles``, which may be
            compressed, or a suffix of a table.
        smiles: The requested column of the molecules, which only a table can have, or None.
        target: That of the target, or None.
        layout: As in :func:`read_grid`; of the formats of chemistry, only the encoding is used.

    Returns:
        The cells, and the column of the molecules; None if it is to be guessed.

    Raises:
        DataError: If the file cannot be used.
        MissingExtraError: If RDKit is needed and not installed.
    """
    path = Path(path)
    if reader := _READERS.get(format_of(path) or ""):
        return reader(path, layout.get("encoding") or "utf-8"), SMILES
    wanted = [smiles or SMILES_NAMES[0], *([target] if target else [])]
    return read_grid(path, wanted, header=True, **layout), smiles


def _smiles_grid(path: Path, encoding: str) -> Grid:
    rows, lines, dropped = list[list[object]](), list[int](), list[Dropped]()
    for number, line in enumerate(physical_lines(path, encoding), 1):
        smiles, *name = line.split(maxsplit=1) or [""]
        if not smiles:
            dropped.append(Dropped(number, BLANK))
        elif number > 1 or "smiles" not in smiles.lower():  # a header
            rows.append([smiles, name[0].strip() if name else ""])
            lines.append(number)
    return _grid([SMILES, NAME], rows, lines, dropped, path)


def _sdf_grid(path: Path, encoding: str) -> Grid:
    records, distinct, content = list[tuple[int, dict[str, str]]](), dict[str, None](), 0
    for line, record in _records(path, encoding):
        records.append((line, record))
        distinct |= dict.fromkeys(record)
        content += sum(map(len, chain(record, record.values())))
        require_filled(len(records) * len(distinct), content, path)
    names = list(distinct)
    rows: list[list[object]] = [[record.get(name, "") for name in names] for _, record in records]
    return _grid(names, rows, [line for line, _ in records], [], path)


def _grid(
    columns: list[str], rows: list[list[object]], lines: list[int], dropped: list[Dropped],
    path: Path,
) -> Grid:  # fmt: skip
    if not rows:
        raise DataError("contains no molecules", file=path)
    return Grid(columns, rows, lines, dropped, header=True, numbered=False, notes=[])


def _records(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the first line of each structure, its SMILES, name and properties."""
    block, start = list[str](), 1
    for number, line in enumerate(physical_lines(path, encoding), 1):
        if not line.startswith("$$$$"):
            block.append(line.rstrip("\r\n"))
            continue
        yield start, _record(block)
        block, start = [], number + 1
    if any(line.strip() for line in block):
        yield start, _record(block)


def _record(block: list[str]) -> dict[str, str]:
    end = next((k for k, line in enumerate(block) if line.startswith("M  END")), -1) + 1
    own = {SMILES: _smiles("\n".join(block[:end]))}
    if name := "".join(block[:1]).strip():
        own[NAME] = name
    lines = iter(block[end:])
    for line in lines:
        if found := _PROPERTY.match(line):
            values = []
            while value := next(lines, "").strip():
                values.append(value)
            own.setdefault(found[1], "\n".join(values))
    return own


def _smiles(molfile: str) -> str:
    """Return the SMILES of a structure, also of one that is chemically wrong, or ""."""
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise MissingExtraError("reading SDF files", "rdkit", "graph") from error
    with rdBase.BlockLogs():
        molecule = Chem.MolFromMolBlock(molfile)
        if molecule is None:  # its SMILES will be refused with the reason
            molecule = Chem.MolFromMolBlock(molfile, sanitize=False)
        return "" if molecule is None else Chem.MolToSmiles(molecule)


_READERS = {"sdf": _sdf_grid, "smiles": _smiles_grid}
