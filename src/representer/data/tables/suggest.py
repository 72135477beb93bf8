"""Suggestions for messages: the available names, and the closest match."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_MOST, _LONGEST = 5000, 60  # choices that are compared, in time quadratic in their length


def listing(names: Sequence[str], most: int = 12) -> str:
    """Return the names in quotes, with long names and long lists truncated."""
    cut = (name if len(name) <= 40 else name[:37] + "..." for name in names[:most])
    shown = ", ".join(map(repr, cut))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def did_you_mean(name: str, choices: Sequence[str]) -> str:
    """Return ``"Did you mean 'x'? "`` for the closest choice, or an empty string."""
    short = (choice for choice in choices[:_MOST] if len(choice) <= _LONGEST)
    by_fold = {choice.casefold(): choice for choice in short}
    near = difflib.get_close_matches(name.casefold(), by_fold, n=1)
    return f"Did you mean {by_fold[near[0]]!r}? " if near else ""
