"""The one record of long work: what is finished is kept line by line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Generic, TypeVar

from representer.errors import DataError, StorageError
from representer.storage import atomic
from representer.storage.atomic import parse_json, physical_memory, read_bytes

Unit = TypeVar("Unit", bound=Hashable)
Value = TypeVar("Value")


class Finished(Generic[Unit, Value]):
    """The values of finished units, in a JSON Lines file.

    A unit is on the disk before it counts, and a line that a kill has cut off or that is damaged
    costs its own unit alone. Only the holder of a lock may open one; the file is never replaced, so
    that it may be the one that is locked.

    Args:
        path: The file.
        line: From a unit and its value to a line of plain values.
        entry: The reverse; it may raise any error of a damaged line.

    Raises:
        DataError: The file cannot be read.
    """

    def __init__(
        self, path: Path, line: Callable[[Unit, Value], Any],
        entry: Callable[[Any], tuple[Unit, Value]],
    ) -> None:  # fmt: skip
        self._path, self._line = path, line
        self.finished, size = finished(path, entry)
        try:
            if size is not None:
                os.truncate(path, size)  # a new line must not continue one that was cut off
        except OSError as error:
            raise StorageError(path, error) from error

    def add(self, unit: Unit, value: Value) -> None:
        """Append the value of a unit."""
        line = json.dumps(self._line(unit, value), allow_nan=False)
        atomic.append(self._path, f"{line}\n".encode())
        self.finished[unit] = value  # on a full disk it is not


def finished(
    path: Path, entry: Callable[[Any], tuple[Unit, Value]]
) -> tuple[dict[Unit, Value], int | None]:
    """Return the values of a file by their units, and the size of its complete lines, if any."""
    try:
        content = read_bytes(path, physical_memory())
    except FileNotFoundError:
        return {}, None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from None
    size = content.rfind(b"\n") + 1

    def parsed(line: bytes) -> tuple[Unit, Value] | None:
        try:
            return entry(parse_json(line))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    return dict(filter(None, map(parsed, content[:size].split(b"\n")[:-1]))), size
