"""Molecules and their targets: reading from a file, splits, balanced draws, assembled examples."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from representer.checks import is_missing, measured, parse_number, written_number
from representer.data.molecules.smiles import parse_smiles
from representer.data.splits import Splits, digest_of, split
from representer.data.tables import Grid, read_grid
from representer.data.tables.columns import (
    BLANK,
    LABEL_NAMES,
    Dropped,
    ambiguous,
    blocks,
    group_names,
    ignored_split,
    is_filled,
    is_other,
    likely_labels,
    name_of,
    plain,
    require_filled,
    resolve,
    text_of,
)
from representer.data.tables.files import SMALL, format_of
from representer.data.tables.reading import physical_lines
from representer.errors import ArgumentError, DataError, MissingExtraError

# Selection of the columns of molecules and values, by name or by their content.

_SAMPLE, _LONG = 30, 4  # cells, characters
_BRACKETS = re.compile(  # isotope, element, chirality, hydrogens, charge, class
    r"\[\d*(?:[A-Z][a-z]?|[bcnops]|as|se|te|\*)(?:@+(?:[A-Z]{2}\d+)?)?(?:H\d*)?[-+]*\d*(?::\d+)?\]"
)
_ATOM = rf"(?:{_BRACKETS.pattern}|Br|Cl|[BCNOPSFIbcnops])"
_SMILES = re.compile(rf"{_ATOM}(?:{_ATOM}|[-=#$:/\\.()%\d])*(?<![-=#$:/\\.(%])")
SMILES_NAMES = ("smiles", "canonical_smiles", "smi", "structure")


def is_smiles_name(name: str) -> bool:
    """Return True if a column of this name may hold molecules."""
    return plain(name) in SMILES_NAMES or "smiles" in plain(name)


def are_smiles(cells: Iterable[object]) -> bool:
    """Return True if cells are written as SMILES, a quarter of them with branches or rings.

    Names and codes of these letters have neither, or a number of a ring once.
    """
    written = [text for cell in cells if not isinstance(cell, list) and (text := value(cell))]
    if not written or not all(map(_SMILES.fullmatch, written)):
        return False
    bare = [_BRACKETS.sub("C", text) for text in written]
    if any(text.count("(") != text.count(")") for text in bare):
        return False
    if any(text.count(digit) % 2 for text in bare if "%" not in text for digit in "0123456789"):
        return False
    branched = [text for text in written if any(sign in text for sign in "(=#1[")]
    return 4 * len(branched) >= len(written)


def smiles_column(grid: Grid, smiles: str | None, source: str) -> tuple[int, list[str]]:
    """Return the position of the molecules, with a note if their column is guessed.

    Raises:
        DataError: If there is no such column; the message lists the existing ones.
    """
    if smiles is not None:
        (column, *others) = resolve(grid, smiles, "smiles", source)
        if others:
            raise ArgumentError("smiles", smiles, "one column")
        return column, []
    names = [plain(name) for name in grid.columns]
    for name in SMILES_NAMES:
        if names.count(name) == 1:
            return names.index(name), []
    columns = [i for i, name in enumerate(names) if "smiles" in name] or [
        i for i, name in enumerate(names) if "selfies" not in name and _has_molecules(grid, i)
    ]
    if len(columns) == 1:
        return columns[0], [f"The molecules are taken from column {grid.columns[columns[0]]!r}."]
    why = "several columns could be it" if columns else "no column is named smiles"
    raise ambiguous(grid, columns, "smiles", source, why)


def guess_target(
    grid: Grid, smiles: int, source: str, apart: Sequence[int] = ()
) -> tuple[int, str]:
    """Return the position of the values to learn, and a note that says so.

    That is the column with a common name, or else the only one that is neither an identifier nor
    empty, or the only one of these that is measured by its name. ``apart`` are the columns that
    are something else, such as groups.

    Raises:
        DataError: If no column or more than one is possible; the message lists the columns.
    """
    free = [i for i in range(len(grid.columns)) if i not in (smiles, *apart)]
    columns = [i for i in free if plain(grid.columns[i]) in LABEL_NAMES]
    if len(columns) != 1:
        columns = [i for i in free if not is_other(grid, i) and _has_values(grid, i)]
        columns = likely_labels(grid, columns)
    if len(columns) == 1:
        return columns[0], f"The target is taken from column {grid.columns[columns[0]]!r}."
    why = "several columns could be it" if columns else "none looks like it"
    raise ambiguous(grid, columns, "target", source, why)


def are_numbers(cells: list[str]) -> bool:
    """Return True if values are numbers to predict, not classes.

    Most of them are numbers, so that the others, such as those with a decimal comma, are mistakes
    to report; 0 and 1 alone are classes.
    """
    filled = [cell for cell in cells if cell]
    numbers = [number for cell in filled if (number := written_number(cell)) is not None]
    return 2 * len(numbers) > len(filled) and not set(numbers) <= {0.0, 1.0}


def value(cell: object) -> str:
    """Return a cell as text without surrounding whitespace, ``""`` for a missing value."""
    text = name_of(cell)
    return "" if is_missing(text) else text


def _has_molecules(grid: Grid, column: int) -> bool:
    """Return True if the first cells are SMILES, some of them too long for a class or number."""
    cells = [text for row in grid.rows[:_SAMPLE] if (text := value(row[column]))]
    if not any(len(cell) >= _LONG and parse_number(cell) is None for cell in cells):
        return False
    try:
        return all(parse_smiles(cell).GetNumAtoms() for cell in cells)
    except ArgumentError:
        return False


def _has_values(grid: Grid, column: int) -> bool:
    """Return True for numbers, and for texts that repeat; names of molecules do not.

    Few cells, and one value alone, are not for training.
    """
    cells = [text for row in grid.rows if (text := value(row[column]))]
    if not is_filled(cells, len(grid.rows)) or len(cells) > 2 > len(set(cells)):
        return False
    numbers = [written_number(cell) for cell in cells]
    if cells and None not in numbers:
        counting = [numbers[0] + k for k in range(len(numbers))]  # type: ignore[operator]
        return len(cells) < 3 or numbers != counting  # an index
    are_measured = 2 * sum(bool(measured(cell)) for cell in cells) > len(cells)
    return are_measured or 0 < len(set(cells)) <= len(cells) // 2


# Files of molecules as tables: SDF and molfiles, files of SMILES, and tables themselves.

SMILES, NAME = "smiles", "name"
_PROPERTY = re.compile(r">.*<([^<]+)>")


def read_molecule_grid(
    path: str | PathLike[str], smiles: str | None, target: str | None, **layout: Any
) -> tuple[Grid, str | None]:
    """Return the cells of a table, of an SDF file or of a file of SMILES, and the column to use.

    An SDF file has the columns ``smiles``, ``name``, if it gives names, and its properties; the
    SMILES of a structure that cannot be read is empty. A file of SMILES has ``smiles`` and
    ``name``, what follows the first blank of a line. Files may be compressed. The column is that of
    the molecules, None if it is to be guessed; only a table can have requested ones.

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
    def cells() -> Iterator[tuple[int, list[str] | str]]:
        for number, line in enumerate(physical_lines(path, encoding), 1):
            smiles, *name = line.split(maxsplit=1) or [""]
            if not smiles or number > 1 or "smiles" not in smiles.lower():  # a header
                yield number, [smiles, name[0].strip() if name else ""] if smiles else BLANK

    rows, lines, dropped = list[list[object]](), list[int](), list[Dropped]()
    for number, row in chain.from_iterable(blocks(cells(), SMALL, path)):
        if isinstance(row, str):
            dropped.append(Dropped(number, row))
        else:
            rows.append([*row])
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
    record = {SMILES: _smiles("\n".join(block[:end]))}
    if name := "".join(block[:1]).strip():
        record[NAME] = name
    lines = iter(block[end:])
    for line in lines:
        if match := _PROPERTY.match(line):
            values = []
            while value := next(lines, "").strip():
                values.append(value)
            record.setdefault(match[1], "\n".join(values))
    return record


UNREADABLE = "unreadable structure"  # in place of the SMILES; its blank makes it invalid


def _smiles(molfile: str) -> str:
    """Return the SMILES of a structure, also of one that is chemically wrong, or `UNREADABLE`."""
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise MissingExtraError("reading SDF files", "rdkit", "graph") from error
    with rdBase.BlockLogs():
        molecule = Chem.MolFromMolBlock(molfile)
        if molecule is None:  # its SMILES will be refused with the reason
            molecule = Chem.MolFromMolBlock(molfile, sanitize=False)
        return UNREADABLE if molecule is None else Chem.MolToSmiles(molecule)


_READERS = {"sdf": _sdf_grid, "smiles": _smiles_grid}


@dataclass(frozen=True)
class MoleculeTable:
    """Molecules and their targets, in the order of the file.

    Args:
        smiles: One molecule per row, without surrounding whitespace.
        targets: The cells of the targets, row by row; ``""`` for a missing value.
        lines: The line of the file on which each row starts.
        smiles_column: The column of the molecules.
        target_columns: The columns of the targets.
        dropped: The skipped rows, with reasons.
        source: The file.
        notes: Guesses made while reading.
        groups: What each row belongs to; none if no column of groups is named.
    """

    smiles: list[str]
    targets: list[tuple[str, ...]]
    lines: list[int]
    smiles_column: str
    target_columns: tuple[str, ...]
    dropped: list[Dropped]
    source: str
    notes: list[str]
    groups: Sequence[str] = ()

    def __len__(self) -> int:
        """Return the number of molecules."""
        return len(self.smiles)

    def numbers(self) -> NDArray[np.float64]:
        """Return the targets as numbers ``(N, K)``, NaN for missing values.

        Raises:
            DataError: If a cell is not a finite number, with its line and column.
        """
        numbers = np.full((len(self), len(self.target_columns)), np.nan)
        for i, (cells, line) in enumerate(zip(self.targets, self.lines, strict=True)):
            for k, cell in enumerate(cells):
                if cell:
                    numbers[i, k] = self._number(cell, line, self.target_columns[k])
        return numbers

    def _number(self, cell: str, line: int, column: str) -> float:
        number = parse_number(cell)
        if number is None or not math.isfinite(number):
            fix = "Correct or empty the cell, or pass task='classification' for classes."
            problem = f"{_short(cell)} is not a finite number in plain notation, such as -1.5e3"
            raise DataError(problem, file=self.source, line=line, column=column, fix=fix)
        return number


def read_molecules(
    path: str | PathLike[str], smiles: str | None = None, target: str | None = None, *,
    skip_invalid: bool = False, delimiter: str | None = None, encoding: str = "utf-8",
) -> MoleculeTable:  # fmt: skip
    """Read molecules from CSV, TSV, JSON Lines, Parquet, SDF or a file of SMILES (``.smi``).

    Args:
        path: The file, which may be compressed; the first row of a table names its columns.
        smiles: The column of the molecules; by default one with a usual name, such as ``smiles``.
        target: The column of the target, or several separated by commas; None for no target. Rows
            without any target value are skipped, with a note.
        skip_invalid: Skip rows without a valid SMILES instead of raising an error.
        delimiter: The cell separator of a CSV or TSV file; guessed by default.
        encoding: The encoding of the file.

    Raises:
        ArgumentError: If a column is requested twice.
        DataError: If the file is invalid, or a row has no valid SMILES, with its line, value
            and reason.
        MissingExtraError: If RDKit is not installed.
    """
    layout = {"delimiter": delimiter, "encoding": encoding}
    grid, smiles = read_molecule_grid(path, smiles, target, **layout)
    return molecules_of(grid, str(Path(path)), smiles, target, skip_invalid=skip_invalid)


def molecules_of(
    grid: Grid, source: str, smiles: str | None, target: str | None, *, skip_invalid: bool,
    require_target: bool = False, groups: str | None = None,
) -> MoleculeTable:  # fmt: skip
    """Return the molecules of a grid of cells; see :func:`read_molecules`.

    Args:
        grid: The cells.
        source: The file, for messages.
        smiles: As in :func:`read_molecules`.
        target: As in :func:`read_molecules`.
        skip_invalid: As in :func:`read_molecules`.
        require_target: Without a named target, guess its column.
        groups: Columns of what rows belong to, or None.
    """
    column, guessed = smiles_column(grid, smiles, source)
    notes = [*grid.notes, *guessed, *ignored_split(grid)]
    places = resolve(grid, target, "target", source) if target else []
    if require_target and not places:
        apart = resolve(grid, groups, "groups", source) if groups else []
        chosen, note = guess_target(grid, column, source, apart)
        places, notes = [chosen], [*notes, note]
    if len(set(places)) < len(places) or column in places:
        raise ArgumentError("target", target, "columns other than the SMILES, each once")
    kept: list[tuple[str, tuple[str, ...], int]] = []
    dropped, invalid = list(grid.dropped), []
    for row, line in zip(grid.rows, grid.lines, strict=True):
        molecule = text_of(row[column]).strip()
        cells = tuple(value(row[k]) for k in places)
        if places and not any(cells):
            dropped.append(Dropped(line, "no target"))
        elif reason := invalid_reason(molecule):
            invalid.append(Dropped(line, reason))
        else:
            kept.append((molecule, cells, line))
    if invalid and not skip_invalid:
        raise _refusal(invalid, source, grid.columns[column])
    dropped = sorted([*dropped, *invalid], key=lambda row: row.line)
    if not kept:
        problem = f"none of the {len(dropped)} rows can be used"
        fix = f"The first: line {dropped[0].line}, {dropped[0].reason}." if dropped else ""
        raise DataError(problem, file=source, column=grid.columns[column], fix=fix)
    molecules, targets, lines = (list(x) for x in zip(*kept, strict=True))
    columns = tuple(grid.columns[k] for k in places)
    named = group_names(grid, groups, source, lines, [column, *places])
    return MoleculeTable(
        molecules, targets, lines, grid.columns[column], columns, dropped, source, notes, named
    )


def invalid_reason(smiles: str) -> str:
    """Return the reason why a text is not a valid SMILES; ``""`` if it is valid."""
    if not smiles.strip():
        return "empty SMILES"
    if smiles == UNREADABLE:
        return "the lines of its atoms or bonds cannot be read"
    try:
        parse_smiles(smiles)
    except ArgumentError as error:
        reason = str(error).partition("expected a valid SMILES. ")[2].rstrip(".")
        return f"invalid SMILES {_short(smiles)}: {reason or 'it has no atoms'}"
    return ""


def _refusal(invalid: Sequence[Dropped], source: str, column: str) -> DataError:
    first, others = invalid[0], len(invalid) - 1
    lines = ", ".join(str(row.line) for row in invalid[1:6])
    plural, cut = "s" if others > 1 else "", ", ..." if others > 5 else ""
    more = f"; {others} more row{plural} (line{plural} {lines}{cut})" if others else ""
    fix = "Correct it, or skip such rows with skip_invalid."
    return DataError(first.reason + more, file=source, line=first.line, column=column, fix=fix)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


# Splits of molecules: random, or by scaffold.

SPLITS = ("random", "scaffold")


def split_molecules(
    smiles: Sequence[str], fractions: Sequence[float], seed: int = 0,
    kind: Literal["random", "scaffold"] = "random", labels: Sequence[str] | None = None,
) -> tuple[list[int], ...]:  # fmt: skip
    """Divide molecules into parts.

    All copies of a molecule are in the same part. ``"scaffold"`` keeps all molecules with the same
    Bemis-Murcko scaffold together, so that test molecules differ more from training molecules.
    The largest scaffolds are assigned first, each to the first part with enough capacity, so the
    last parts have the rare scaffolds; the result depends neither on the seed nor on the order of
    the scaffolds.

    Args:
        smiles: The molecules.
        fractions: The fraction of each part, for example ``(0.8, 0.1, 0.1)``; they sum to 1.
        seed: Determines a random split.
        kind: ``"random"`` or ``"scaffold"``.
        labels: The class of each molecule, which a random split keeps in proportion.

    Returns:
        The positions in each part, ascending.

    Raises:
        ArgumentError: If the fractions are not positive or do not sum to 1, or the kind is unknown.
        DataError: If a part would be empty.

    References:
        Bemis, Murcko, The Properties of Known Drugs 1: Molecular Frameworks, J. Med. Chem. 1996.
    """
    if not fractions or min(fractions) <= 0 or not math.isclose(sum(fractions), 1, abs_tol=1e-9):
        raise ArgumentError("fractions", tuple(fractions), "positive numbers that sum to 1")
    if kind not in SPLITS:
        raise ArgumentError("kind", kind, " or ".join(map(repr, SPLITS)))
    if labels is not None and kind == "random":
        digests = [digest_of(canonical(molecule)) for molecule in smiles]
        return split(labels, fractions, seed, digests).parts
    names = [(scaffold if kind == "scaffold" else canonical)(molecule) for molecule in smiles]
    splits = Splits(len(smiles), groups=names)
    parts = splits.largest_first(fractions) if kind == "scaffold" else splits.dealt(fractions, seed)
    if not all(parts):
        sizes = " + ".join(str(len(rows)) for rows in parts)
        raise DataError(
            f"{len(smiles)} molecules in {len({*names})} groups cannot be divided by "
            f"{tuple(fractions)}: {sizes}",
            fix="Provide more molecules, larger fractions, or another split.",
        )
    return tuple(sorted(rows) for rows in parts)


def canonical(smiles: str) -> str:
    """Return the canonical SMILES of a molecule."""
    from rdkit import Chem

    return Chem.MolToSmiles(parse_smiles(smiles))


def scaffold(smiles: str) -> str:
    """Return the Bemis-Murcko scaffold of a molecule, ``""`` if it has no rings."""
    molecule = parse_smiles(smiles)
    try:
        from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
    except ImportError as error:
        raise MissingExtraError("scaffolds", "rdkit", "graph") from error
    return MurckoScaffoldSmiles(mol=molecule)


# Resampling of training examples, so that rare and common target values occur equally often.


class BalancedDraws:
    """The resampling of L17: draw a bin of the target, then use the next example of the bin.

    All bins have the same width; empty bins are never drawn. The examples of each bin are shuffled
    once and used in turn, across epochs. The examples of an epoch depend only on seed and epoch.

    Args:
        values: The target of each example.
        width: Width of a bin, in the unit of the target; L17's code uses 0.05.
        seed: Seed of the order and the draws.

    Raises:
        ArgumentError: If there are no examples, a value is not finite, or the width is not
            positive.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 6.3, and the authors' code.
    """

    def __init__(self, values: Sequence[float], width: float = 0.05, seed: int = 0) -> None:
        if not 0 < width < math.inf:
            raise ArgumentError("width", width, "a positive number")
        numbers = np.asarray(values, dtype=np.float64)
        if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
            raise ArgumentError("values", numbers.shape, "at least one finite number")
        order = np.random.default_rng((seed, 0)).permutation(len(numbers))  # draws have (seed, 1)
        kinds = np.unique(np.floor(numbers / width), return_inverse=True)[1]
        by_bin = order[np.argsort(kinds[order], kind="stable")]
        self._seed = seed
        self._counts = np.bincount(kinds)
        self._bins = np.split(by_bin, np.cumsum(self._counts)[:-1])
        self._taken: list[NDArray[np.int64]] = [np.zeros(len(self._bins), dtype=np.int64)]

    @property
    def bins(self) -> int:
        """Return the number of non-empty bins."""
        return len(self._bins)

    def epoch(self, epoch: int, count: int | None = None) -> list[int]:
        """Return the examples of an epoch.

        Args:
            epoch: Number of the epoch, from 0.
            count: Number of draws in every epoch; by default the number of examples.
        """
        size = int(self._counts.sum()) if count is None else count
        while len(self._taken) <= epoch:  # number of examples used per bin
            drawn = self._draw(len(self._taken) - 1, size)
            self._taken.append(self._taken[-1] + np.bincount(drawn, minlength=self.bins))
        taken = self._taken[epoch].copy()
        examples = []
        for chosen in self._draw(epoch, size).tolist():
            members = self._bins[chosen]
            examples.append(int(members[taken[chosen] % len(members)]))
            taken[chosen] += 1
        return examples

    def _draw(self, epoch: int, count: int) -> NDArray[np.int64]:
        return np.random.default_rng((self._seed, 1, epoch)).integers(self.bins, size=count)


# Molecules assembled from fragments by RDKit, with a computed property.

CORES = (
    "[*:1]c1ccc([*:2])cc1", "[*:1]c1cccc([*:2])c1", "[*:1]c1ccc([*:2])nc1", "[*:1]c1ccc([*:2])s1",
    "[*:1]C1CCC([*:2])CC1", "[*:1]C1CCN([*:2])CC1", "[*:1]CC[*:2]", "[*:1]CCOC[*:2]",
    "[*:1]C(=O)N[*:2]", "[*:1]/C=C/[*:2]", "[*:1]c1ccc2cc([*:2])ccc2c1", "[*:1]C1CC1[*:2]",
)  # fmt: skip
ENDS = (
    "C", "CC", "C(C)C", "CO", "CCO", "CN", "C(F)(F)F", "C#N", "C(=O)O", "C(=O)OC", "C(=O)NC",
    "CS(C)(=O)=O", "c1ccccc1", "c1ccncc1", "c1ccc(Cl)cc1", "c1ccc(O)cc1", "C1CCCCC1", "C1CCOC1",
    "CBr", "C(N)=O",
)  # fmt: skip
PROPERTY = "QED"


def assembled_molecules(count: int = 600, seed: int = 0) -> MoleculeTable:
    """Return molecules made of a core and two ends, each with its drug-likeness (QED).

    Nothing is downloaded: RDKit joins the fragments and computes the property, a number in [0, 1]
    that combines eight properties of the whole molecule.

    Args:
        count: Number of molecules, up to a few thousand.
        seed: Determines the selection.

    Raises:
        MissingExtraError: If RDKit is not installed.

    References:
        Bickerton et al., Quantifying the chemical beauty of drugs, Nature Chemistry 2012.
    """
    try:
        from rdkit import Chem
        from rdkit.Chem.QED import qed
    except ImportError as error:
        raise MissingExtraError("assembling molecules", "rdkit", "graph") from error
    recipes = list(product(CORES, ENDS, ENDS))
    random.Random(f"assembled/{seed}").shuffle(recipes)
    properties: dict[str, str] = {}
    for core, first, second in recipes:
        if len(properties) == count:
            break
        parts = Chem.MolFromSmiles(f"{core}.[*:1]{first}.[*:2]{second}")
        molecule = Chem.molzip(parts)
        Chem.SanitizeMol(molecule)
        properties[Chem.MolToSmiles(molecule)] = f"{qed(molecule):.5f}"
    lines = list(range(1, len(properties) + 1))  # there is no file: the number of the molecule
    values = [(value,) for value in properties.values()]
    name = "molecules assembled by RDKit"
    return MoleculeTable(list(properties), values, lines, "smiles", (PROPERTY,), [], name, [])
