"""Protection against formula injection in CSV files."""

from __future__ import annotations

import re

from representer.numbers import parse_number

# Signs alone, such as the label "--", are not formulas.
_FORMULA = re.compile(r"'*[=+\-@\t\r].*\w", re.DOTALL)


def guard_formula(cell: str) -> str:
    """Return a cell of a CSV file, prefixed with an apostrophe if it could be run as a formula.

    Spreadsheet programs run a cell as a formula if it begins with ``=``, ``+``, ``-``, ``@``, a tab
    or a carriage return and contains a letter or digit. With an apostrophe as a prefix it is text.
    Numbers and labels of signs alone, such as ``+`` and ``--``, are not changed. A cell that is
    already like a guarded one gets a second apostrophe, so :func:`unguard_formula` restores every
    cell.
    """
    return f"'{cell}" if _FORMULA.match(cell) and parse_number(cell) is None else cell


def unguard_formula(cell: str) -> str:
    """Undo :func:`guard_formula`."""
    return cell[1:] if cell.startswith("'") and guard_formula(cell) != cell else cell
