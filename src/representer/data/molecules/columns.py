"""Selection of the columns of molecules and values, by name or by their content."""

from __future__ import annotations

from representer.data.molecules.smiles import parse_smiles
from representer.data.tables import Grid
from representer.data.tables.columns import (
    LABEL_NAMES,
    ambiguous,
    is_filled,
    is_other,
    plain,
    resolve,
    without_estimates,
)
from representer.data.tables.grid import name_of
from representer.errors import ArgumentError
from representer.numbers import is_missing, measured, parse_number, written_number

_SAMPLE, _LONG = 30, 4  # cells, characters
SMILES_NAMES = ("smiles", "canonical_smiles", "smi", "structure")


def is_smiles_name(name: str) -> bool:
    """Return True if a column of this name may hold molecules."""
    return plain(name) in SMILES_NAMES or "smiles" in plain(name)


def smiles_column(grid: Grid, smiles: str | None, source: str) -> tuple[int, list[str]]:
    """Return the position of the molecules, with a note if their column is guessed.

    Args:
        grid: The cells.
        smiles: The requested column, or None.
        source: The file, for messages.

    Raises:
        ArgumentError: If several columns are requested.
        DataError: If there is no such column; the message lists the existing ones.
    """
    if smiles is not None:
        (at, *others) = resolve(grid, smiles, "smiles", source)
        if others:
            raise ArgumentError("smiles", smiles, "one column")
        return at, []
    names = [plain(name) for name in grid.columns]
    for name in SMILES_NAMES:
        if names.count(name) == 1:
            return names.index(name), []
    found = [i for i, name in enumerate(names) if "smiles" in name] or [
        i for i, name in enumerate(names) if "selfies" not in name and _has_molecules(grid, i)
    ]
    if len(found) == 1:
        return found[0], [f"The molecules are taken from column {grid.columns[found[0]]!r}."]
    why = "several columns could be it" if found else "no column is named smiles"
    raise ambiguous(grid, found, "smiles", source, why)


def guess_target(grid: Grid, smiles: int, source: str) -> tuple[int, str]:
    """Return the position of the values to learn, and a note that says so.

    That is the column with a common name, or else the only one that is neither an identifier nor
    empty.

    Args:
        grid: The cells.
        smiles: The position of the molecules.
        source: The file, for messages.

    Raises:
        DataError: If no column or more than one is possible; the message lists the columns.
    """
    free = [i for i in range(len(grid.columns)) if i != smiles]
    found = [i for i in free if plain(grid.columns[i]) in LABEL_NAMES]
    if len(found) != 1:
        found = [i for i in free if not is_other(grid, i) and _has_values(grid, i)]
        found = without_estimates(grid, found)
    if len(found) == 1:
        return found[0], f"The target is taken from column {grid.columns[found[0]]!r}."
    why = "several columns could be it" if found else "none looks like it"
    raise ambiguous(grid, found, "target", source, why)


def are_numbers(cells: list[str]) -> bool:
    """Return True if values are numbers to predict, not classes.

    Most of them are numbers, so that the others, such as those with a decimal comma, are mistakes
    to report; 0 and 1 alone are classes.
    """
    known = [cell for cell in cells if cell]
    numbers = [number for cell in known if (number := written_number(cell)) is not None]
    return 2 * len(numbers) > len(known) and not set(numbers) <= {0.0, 1.0}


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
