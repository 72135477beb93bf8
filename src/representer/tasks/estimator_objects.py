"""Objects as they were read, for a task that trains an estimator."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from representer.data.tables import Dropped, Grid, left_out
from representer.data.tables.source import open_regular
from representer.printable import say


@dataclass(frozen=True)
class Objects:
    """Objects as they were read.

    Attributes:
        source: Path of the file or folder, or what the objects are.
        labels_file: The file with the labels, for messages.
        objects: As the estimator takes them.
        labels: The label of each as text, None if it has none; see `targets`.
        lines: Line of each label, for messages.
        files: All files that were read.
        notes: Remarks for the user.
        dropped: Rows that were left out.
        reading: Options of reading, as detected.
        column: The column of the objects, for messages.
        label_column: The column of the labels, for messages.
        targets: Names of the targets; each label is then a tuple with a text for each of them,
            which is empty where unknown if there are several.
        table: All rows of a table, which predictions are added to.
        has_lines: False if messages cannot name lines, as of arrays.
        is_numbered_by_line: True if users find an object by its line, not by its row.
        rows: Row of each object in its file, from 1.
    """

    source: str
    labels_file: str
    objects: Sequence[Any]
    labels: Sequence[Any]
    lines: Sequence[int]
    files: tuple[Path, ...] = ()
    notes: Sequence[str] = ()
    dropped: Sequence[Dropped] = ()
    reading: dict[str, Any] = field(default_factory=dict)
    column: str | None = None
    label_column: str | None = None
    targets: Sequence[str] = ()
    table: Grid | None = None
    has_lines: bool = True
    is_numbered_by_line: bool = False
    rows: Sequence[int] = ()

    def __post_init__(self) -> None:
        if not self.rows:
            object.__setattr__(self, "rows", range(1, len(self.objects) + 1))

    def __len__(self) -> int:
        return len(self.objects)

    @property
    def columns(self) -> list[tuple[str | None, Sequence[str | None]]]:
        """The column and the labels of each target."""
        if not self.targets:
            return [(self.label_column, self.labels)]
        return [(name, [cells[k] for cells in self.labels]) for k, name in enumerate(self.targets)]

    @property
    def numbers(self) -> Sequence[int]:
        """The number by which users find each object, see `place`."""
        return self.lines if self.is_numbered_by_line else self.rows

    @property
    def place(self) -> str:
        """The unit of these numbers: line or row."""
        return "line" if self.is_numbered_by_line else "row"

    def subset(self, positions: Sequence[int]) -> Objects:
        """Return the objects at these positions."""
        chosen = {
            name: [getattr(self, name)[i] for i in positions]
            for name in ("objects", "labels", "lines", "rows")
        }
        return replace(self, **chosen)

    def usable(self, reason: Callable[[Any], str]) -> Objects:
        """Return the objects for which there is no reason against them; the others are dropped."""
        reasons = [reason(one) for one in self.objects]
        if not any(reasons):
            return self
        dropped = [Dropped(line, why) for line, why in zip(self.lines, reasons, strict=True) if why]
        kept = self.subset([i for i, why in enumerate(reasons) if not why])
        return replace(kept, dropped=sorted([*self.dropped, *dropped], key=lambda row: row.line))

    def say_notes(self) -> None:
        """Print the remarks, and the rows that were left out, on stderr."""
        for line in (*self.notes, left_out(self.dropped)):
            if line:
                say(f"{self.source}: {line}")

    def described(self, role: str) -> dict[str, Any]:
        """Return the source, and the rows that were left out, for the report."""
        lines: dict[str, list[int]] = {}
        for row in self.dropped:
            lines.setdefault(row.reason.partition(" '")[0], []).append(row.line)
        return {
            "file": self.source,
            "role": role,
            "sha256": self.digest,
            "rows": len(self) + len(self.dropped),
            "kept": len(self),
            "dropped": [
                {"reason": reason, "count": len(at), "lines": at[:5]}
                for reason, at in lines.items()
            ],
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the file or of all files, or of the objects if they come from no file."""
        digests = []
        for path in self.files:
            with open_regular(path) as file:
                digests.append(hashlib.file_digest(file, "sha256"))
        if len(digests) == 1 and not Path(self.source).is_dir():
            return digests[0].hexdigest()
        total = hashlib.sha256(b"".join(digest.digest() for digest in digests))
        if not digests:
            total.update(repr((self.source, self.labels)).encode())
        return total.hexdigest()


def strings_of(strings: Sequence[str], noun: str, reading: dict[str, Any]) -> Objects:
    """Return strings of the command line as the rows of a table with one column.

    Args:
        strings: The strings.
        noun: The name of the column.
        reading: The options of reading of the run.
    """
    lines = [*range(1, len(strings) + 1)]
    table = Grid([noun], [[one] for one in strings], lines, [], True, False, [])
    return Objects("--input", "--input", strings, [None] * len(strings), lines, table=table)
