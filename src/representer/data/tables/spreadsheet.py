"""Text cells that a spreadsheet program would run as formulas, made harmless."""

from __future__ import annotations

import re

from representer.numbers import parse_number

# A formula needs something to compute with: signs alone, such as the label "--", are none.
_FORMULA = re.compile(r"'*[=+\-@\t\r].*\w", re.DOTALL)


def guard_formula(cell: str) -> str:
    """Return a cell of a CSV file, with an apostrophe in front if it could be run as a formula.

    A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return and holds a
    letter or digit is a formula for spreadsheet programs, and one that came with the data may start
    other programs. With an apostrophe in front it is text. Numbers, and labels made of signs alone
    such as ``+`` and ``--``, stay as they are. A cell that begins with an apostrophe and would
    otherwise read like a guarded one gets a second apostrophe, so :func:`unguard_formula` restores
    every cell.
    """
    return f"'{cell}" if _FORMULA.match(cell) and parse_number(cell) is None else cell


def unguard_formula(cell: str) -> str:
    """Return the cell that :func:`guard_formula` was given."""
    return cell[1:] if cell.startswith("'") and guard_formula(cell) != cell else cell
