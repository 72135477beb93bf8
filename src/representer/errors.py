"""The errors of the library, whose messages state the value, what was expected, and the fix.

``exit_code`` is the exit status of the command line for the error.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from representer.printable import one_line, printable


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


class DataError(RepresenterError, ValueError):
    """The content of a user's file is invalid.

    The message reads ``FILE, line 3, column 'label': what is wrong. How to fix it.``
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        column: str | None = None,
        fix: str = "",
    ) -> None:
        place = [printable(str(file))] if file is not None else []
        place += [f"line {line}"] if line is not None else []
        place += [f"column {column!r}"] if column is not None else []
        where = f"{', '.join(place)}: " if place else ""
        super().__init__(_sentence(f"{where}{one_line(problem).rstrip('.')}.", one_line(fix)))


class CheckpointError(RepresenterError, ValueError):
    """A checkpoint is damaged, or was written by another program or version."""


class NewerCheckpointError(CheckpointError):
    """A checkpoint is intact, but was written by a newer version of the library."""


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
