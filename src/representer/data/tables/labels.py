"""Class names and their indices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from representer.checks import is_missing
from representer.data.tables.files import did_you_mean, listing, unguard_formula
from representer.errors import ArgumentError, DataError


def alike(labels: Iterable[Any]) -> str:
    """Return a note on texts that differ in case or blanks alone; empty if there are none."""
    first: dict[str, str] = {}
    for label in labels:
        text = label if isinstance(label, str) else ""
        if (other := first.setdefault(text.strip().casefold(), text)) != text:
            return f"The classes {other!r} and {label!r} differ in case or blanks alone."
    return ""


def remarks(labels: Iterable[Any]) -> list[str]:
    """Return notes on classes: see `alike`, and those that are words for a missing value."""
    classes = dict.fromkeys(labels)
    words = [repr(c) for c in classes if isinstance(c, str) and c and is_missing(c)]
    note = f"{', '.join(words)}: taken as a class; leave the cell empty if the label is unknown"
    return [*filter(None, [alike(classes)]), *([note] if words else [])]


@dataclass(frozen=True)
class LabelMap:
    """The names of the classes; the index of a class is its position.

    Args:
        names: The distinct names.

    Raises:
        ArgumentError: If there are no names, or one is empty or a duplicate.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check for empty and duplicate names."""
        if not self.names or "" in self.names or len(set(self.names)) < len(self.names):
            raise ArgumentError("names", self.names, "one or more distinct names, none empty")

    @classmethod
    def build(cls, labels: Iterable[str]) -> LabelMap:
        """Collect the classes of labels, in numerical order if all are integers."""
        names = sorted(set(labels))
        if all(name.removeprefix("-").isdecimal() and name.isascii() for name in names):
            names.sort(key=int)
        return cls(tuple(names))

    def __len__(self) -> int:
        """Return the number of classes."""
        return len(self.names)

    def encode(
        self, label: str, *, file: str | Path | None = None, line: int | None = None,
        column: str | None = None,
    ) -> int:  # fmt: skip
        """Return the index of a class.

        Args:
            label: The class name, possibly with the prefix of :func:`guard_formula`.
            file: The file of the label, for messages.
            line: The line of the label.
            column: The column of the label.

        Raises:
            DataError: If the class is unknown.
        """
        number = self._numbers.get(label, self._numbers.get(unguard_formula(label)))
        if number is None:
            raise DataError(
                f"the label {label!r} is not one of the {len(self)} classes: {listing(self.names)}",
                file=file, line=line, column=column,
                fix=f"{did_you_mean(label, self.names)}Correct the label or remove the row.",
            )  # fmt: skip
        return number

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}
