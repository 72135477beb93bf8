"""Every error of the library: what came, what was expected, and the mend.

``exit_code`` is what the command line ends with when the error reaches it.
"""

from __future__ import annotations

from pathlib import Path


class RepresenterError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 2


class ArgumentError(RepresenterError, ValueError):
    """An argument has a value that is not allowed."""

    def __init__(self, name: str, got: object, expected: str, *, hint: str = "") -> None:
        super().__init__(_sentence(f"{name} is {got!r}; expected {expected}.", hint))


class ShapeError(RepresenterError, ValueError):
    """An argument has a shape that the equation does not allow."""

    def __init__(self, name: str, got: tuple[int, ...], expected: str, *, hint: str = "") -> None:
        super().__init__(_sentence(f"{name} has shape {tuple(got)}; expected {expected}.", hint))


class KindError(RepresenterError, TypeError):
    """An argument is of the wrong kind: its type or dtype, not its value."""

    def __init__(self, name: str, got: str, expected: str, *, hint: str = "") -> None:
        super().__init__(_sentence(f"{name} is {got}; expected {expected}.", hint))


class BackendError(RepresenterError, RuntimeError):
    """A backend that was asked for by name cannot run."""


class MissingExtraError(RepresenterError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(f'{purpose} needs {package}: pip install "representer[{extra}]"')


class DataError(RepresenterError, ValueError):
    """A user's file holds something that cannot be used.

    The message reads ``FILE, line 3, column 'label': what is wrong. The mend.``
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        column: str | None = None,
        mend: str = "",
    ) -> None:
        place = [str(file)] if file is not None else []
        place += [f"line {line}"] if line is not None else []
        place += [f"column {column!r}"] if column is not None else []
        where = f"{', '.join(place)}: " if place else ""
        super().__init__(_sentence(f"{where}{problem.rstrip('.')}.", mend))


class CheckpointError(RepresenterError, ValueError):
    """A checkpoint is damaged, foreign, or of another version."""


class RunFolderError(RepresenterError):
    """A run folder is in use by another process or cannot be written."""

    exit_code = 73


class TrainingError(RepresenterError, RuntimeError):
    """Training cannot go on, for example because the loss is not a number."""

    exit_code = 70


def _sentence(message: str, hint: str) -> str:
    return f"{message} {hint}".rstrip()
