"""The errors of the library, whose messages state the value, what was expected, and the fix.

``exit_code`` is the exit status of the command line for the error.
"""

from __future__ import annotations

import contextlib
import errno
import re
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from itertools import zip_longest
from pathlib import Path
from typing import Any, TextIO

# Printing: text from users with terminal control characters escaped, and tables.

# C0 and C1 controls, line and paragraph separators, directional overrides, and lone surrogates,
# which represent the bytes of a name that is not UTF-8
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MARKDOWN = re.compile(
    r"[\\`*_\[\]~|$#]|(?<=\])\(|^[-+=>]|^\d+(?=[.)](?:\s|$))|(?<=www)\.|:(?=//)", re.IGNORECASE
)
_LINE_END = re.compile(r"(?<!\s)\s*[\r\n]\s*")  # begins once in a run of blanks


def printable(text: str, *, keep: str = "") -> str:
    r"""Escape the control characters of a text; letters of all scripts are kept.

    Examples:
        >>> printable("größer\x1b[2J")
        'größer\\x1b[2J'
    """
    return _CONTROLS.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)


def one_line(text: str) -> str:
    """Return a text on one line, with line breaks as spaces and control characters escaped."""
    return printable(_LINE_END.sub(" ", text.strip()))


def markdown(value: object) -> str:
    r"""Return a value on one line of Markdown, without the meaning of its characters.

    Neither Markdown nor HTML in a name, such as that of a class or file, has an effect, also within
    a table, and addresses do not become links.

    Examples:
        >>> markdown("[a|b](http://c) <i>")
        '\\[a\\|b\\]\\(http&#58;//c) &lt;i>'
    """
    text = one_line(str(value)).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKDOWN.sub(_without_meaning, text)


def markdown_code(text: str) -> str:
    """Return a text as code within a line of Markdown, also one that contains backticks."""
    text = one_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _without_meaning(match: re.Match[str]) -> str:
    text = match[0]
    return f"\\{text}" if text in "\\`*_[]~|$#-+>(" else "".join(f"&#{ord(c)};" for c in text)


def reason(error: BaseException, max_length: int = 200) -> str:
    """Return the message of an error of another library on one line, truncated."""
    line = one_line(str(error)).rstrip(".") or type(error).__name__
    return line if len(line) <= max_length else f"{line[: max_length - 3]}..."


def show(text: str) -> None:
    """Print lines on stdout, with other control characters escaped."""
    print(printable(text, keep="\n"))


def plural(noun: str) -> str:
    """Return the plural of a noun: graphs, series."""
    return noun if noun.endswith("s") else noun + "s"


def say(line: str) -> None:
    """Print a line on stderr; a closed stderr is ignored."""
    print_line(line, sys.stderr)


QUIET = ContextVar("quiet", default=False)  # of ``--quiet``: notes and progress are not printed


def print_line(line: str, stream: TextIO | None) -> None:
    """Print a line of progress or a note; a closed stream or broken pipe is ignored."""
    if QUIET.get():
        return
    with contextlib.suppress(OSError, ValueError):
        print(printable(line), file=stream, flush=True)


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # the byte that Python could not decode
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines: the first column left-aligned, the others right.

    Rows may be shorter than the first.
    """
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    lines = []
    for name, *cells in rows:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=False))
        lines.append("  ".join([name.ljust(widths[0]), *numbers]).rstrip())
    return lines


class RepresenterError(Exception):
    """Base class of the errors of this library."""

    exit_code = 2

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to unpickle the error: by its message, as subclasses take other arguments."""
        return type(self).__new__, (type(self),), {"args": self.args, **vars(self)}


class ArgumentError(RepresenterError, ValueError):
    """An argument has a value that is not allowed."""

    def __init__(self, name: str, got: object, expected: str, *, hint: str = "") -> None:
        super().__init__(_sentence(f"{name} is {got!r}; expected {expected}.", hint))


class ShapeError(RepresenterError, ValueError):
    """An argument has a shape that the equation does not allow."""

    def __init__(self, name: str, got: tuple[int, ...], expected: str, *, hint: str = "") -> None:
        super().__init__(_sentence(f"{name} has shape {tuple(got)}; expected {expected}.", hint))


class KindError(RepresenterError, TypeError):
    """An argument has the wrong type, dtype or device."""

    def __init__(self, name: str, got: str, expected: str, *, hint: str = "") -> None:
        super().__init__(_sentence(f"{name} is {got}; expected {expected}.", hint))


class NoKernelError(KindError, AttributeError):
    """A layer has no exact kernel, and so no attribute ``kernel``."""


class BackendError(RepresenterError, RuntimeError):
    """A backend that was requested by name cannot run."""


class MissingExtraError(RepresenterError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(f'{purpose} needs {package}: pip install "representer[{extra}]"')


def unit_of(file: str | Path | None) -> str:
    """Return "row" for a table without lines, such as a workbook, and "line" for text."""
    has_rows = str(file).lower().endswith((".parquet", ".pq", ".xlsx", ".xls", ".ods"))
    return "row" if has_rows else "line"


class DataError(RepresenterError, ValueError):
    """The content of a user's file is invalid.

    The message reads ``FILE, line 3, column 'label': what is wrong. How to fix it.``, with rows of
    files that have no lines.
    """

    def __init__(
        self, problem: str, *, file: str | Path | None = None, line: int | None = None,
        column: str | None = None, fix: str = "",
    ) -> None:  # fmt: skip
        parts = [printable(str(file))] if file is not None else []
        parts += [f"{unit_of(file)} {line}"] if line is not None else []
        parts += [f"column {column!r}"] if column is not None else []
        where = f"{', '.join(parts)}: " if parts else ""
        super().__init__(_sentence(f"{where}{one_line(problem).rstrip('.')}.", one_line(fix)))


class CheckpointError(RepresenterError, ValueError):
    """A checkpoint is damaged, or was written by another program or version."""


class CheckpointVersionError(CheckpointError):
    """A checkpoint is intact, but was written by another version of the library."""


class RunFolderError(RepresenterError):
    """A run folder is in use by another process or cannot be written."""

    exit_code = 73


class StorageError(RepresenterError, OSError):
    """A file cannot be written: the disk is full, faulty, or read-only."""

    def __init__(self, file: str | Path, cause: OSError) -> None:
        reason = (cause.strerror or str(cause)).lower()
        fix = _STORAGE_FIXES.get(cause.errno or 0, "Choose another --out.")
        super().__init__(f"{file} cannot be written: {reason}. {fix}")
        self.errno = cause.errno


class TrainingError(RepresenterError, RuntimeError):
    """Training cannot continue, for example because the loss is NaN."""

    exit_code = 70


class Interrupted(RepresenterError):
    """A signal stopped training after its state was saved."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


_STORAGE_FIXES = {
    errno.ENOSPC: "Free some space and start again.",
    errno.EDQUOT: "Free some of your quota and start again.",
    errno.EIO: "The disk reports a fault: check it, or choose another --out.",
    errno.ENOENT: "The folder is gone; choose another --out and leave it in place.",
    errno.ENAMETOOLONG: "Choose a shorter --out.",
}


def _sentence(message: str, hint: str) -> str:
    return f"{message} {hint}".rstrip()
