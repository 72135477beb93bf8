"""The file that ``predict`` writes: refused before any work where it could not be written."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from representer.data.text import MISSING
from representer.errors import DataError, StorageError
from representer.tasks.storage import atomic


def check_output(output: Path, data: Path) -> None:
    """Refuse an output that could not be written, before any work is done.

    Args:
        output: The file to write.
        data: The input, which is not to be written over.

    Raises:
        DataError: If it is a directory, in no directory, or the input.
    """
    if output.is_dir():
        raise DataError("is a directory", file=output, mend="Give -o the name of a file.")
    if not output.parent.is_dir():
        raise DataError("there is no such folder", file=output.parent, mend="Make it first.")
    if data.exists() and output.exists() and output.samefile(data):
        raise DataError("is the input", file=output, mend="Give -o another name.")


def refuse_same_columns(added: Sequence[str], there: Sequence[str], source: str) -> None:
    """Refuse to add columns that the input has already.

    Raises:
        DataError: If it has one of them.
    """
    for name in added:
        if name in there:
            mend = "Rename it in the input."
            problem = "the input has this column already"
            raise DataError(problem, file=source, column=name, mend=mend)


def shown_cell(value: object) -> str:
    """Return a cell of the input as CSV has it."""
    if isinstance(value, str):
        return value
    if value is None or value is MISSING:
        return ""
    return json.dumps(value, ensure_ascii=False, default=str)


def write_table(output: str | Path | None, text: str) -> None:
    """Write a file whole or not at all; None is stdout.

    Raises:
        StorageError: If it cannot be written.
    """
    if output is None:
        sys.stdout.write(text)
        return
    path = Path(output)
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):  # a device or a pipe: not replaced
        try:
            with path.open("w", encoding="utf-8", newline="") as file:
                file.write(text)
        except OSError as error:
            raise StorageError(path, error) from error
        return
    atomic.write_text(path, text)
