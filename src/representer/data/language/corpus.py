"""The training, validation and test lines of a running text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from representer.data.language.lines import text_lines
from representer.data.tables.formats import format_of
from representer.errors import ArgumentError, DataError

PARTS = ("train", "valid", "test")
_NAMES = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}
Lines = Callable[[], Iterable[str]]


def find_parts(folder: Path) -> dict[str, Path]:
    """Return the file of each part in a folder, recognized by its name.

    Args:
        folder: A folder with files such as ``ptb.train.txt``, ``valid.txt.xz`` and ``test.txt``.

    Raises:
        DataError: If a part has no file, or several.
    """
    found: dict[str, Path] = {}
    files = sorted(
        path for path in folder.iterdir() if path.is_file() and format_of(path) == "lines"
    )
    for part in PARTS:
        matching = [path for path in files if _names_part(path, part)]
        if len(matching) != 1:
            what = ", ".join(path.name for path in matching) or "none"
            fix = "Name the files: representer fit language TRAIN --valid FILE --test FILE"
            raise DataError(
                f"expected one file of the {part} part; found {what}", file=folder, fix=fix
            )
        found[part] = matching[0]
    return found


def _names_part(path: Path, part: str) -> bool:
    words = path.name.lower().replace("_", ".").replace("-", ".").split(".")
    return any(name in words for name in _NAMES[part])


def file_lines(path: str | Path, encoding: str = "utf-8") -> Lines:
    """Return a function that yields the lines of a file at each call."""
    return lambda: text_lines(path, encoding)


def cut(lines: Sequence[str], valid: float, test: float) -> dict[str, Lines]:
    """Split one text into training, validation and test lines, in this order.

    Args:
        lines: The lines of the text.
        valid: The fraction of the lines for validation.
        test: The fraction for testing.

    Raises:
        ArgumentError: If the fractions leave no lines for training.
        DataError: If there are too few lines.
    """
    if not (0 < valid < 1 and 0 < test < 1 and valid + test < 1):
        raise ArgumentError(
            "valid_fraction and test_fraction",
            (valid, test),
            "two positive fractions whose sum is below 1",
        )
    held, last = (max(1, round(share * len(lines))) for share in (valid, test))
    first = len(lines) - held - last
    if first < 1:
        fix = "Pass a longer text, or --valid FILE and --test FILE."
        raise DataError(f"{len(lines)} lines cannot be split into three parts", fix=fix)
    separator = first + held
    bounds = {"train": (0, first), "valid": (first, separator), "test": (separator, len(lines))}
    return {name: (lambda a=a, b=b: lines[a:b]) for name, (a, b) in bounds.items()}
