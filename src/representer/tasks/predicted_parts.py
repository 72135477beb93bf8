"""Predictions of a table in many files, one output for each, by the backends of joblib.

An output is written completely or not at all, and ``predictions.json`` lists those that are there
with the size and time of their input, so the same command continues after an interruption.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from representer.data.tables.reading import table_files
from representer.data.tables.source import uncompressed
from representer.errors import DataError
from representer.jobs import completed
from representer.printable import say
from representer.storage import atomic
from representer.storage.files import parse_json, read_bytes
from representer.storage.lock import LOCK, lock
from representer.storage.run_files import OF_PREDICTIONS
from representer.tasks.task import Task

RECORD = "predictions.json"
_LARGEST = 2**28  # bytes of the record


def predict_parts(
    task: Task,
    run: str | Path,
    data: str | Path,
    output: str | Path,
    options: Sequence[Any],
    *,
    device: str,
    n_jobs: int | None,
) -> None:
    """Write the predictions of each file of a table into a folder, as ``NAME.csv``.

    Workers read and write the files themselves, so on several machines the folders are shared.

    Args:
        task: The task of the run.
        run: The run folder.
        data: A folder, a pattern or a file.
        output: The folder of the outputs; it is made if it is missing.
        options: Of ``predict``, see `Task`.
        device: Device of the network.
        n_jobs: Number of workers; None is all of a cluster.

    Raises:
        DataError: A file cannot be used, or the folder holds something else.
        RunFolderError: Another process writes into the folder.
        StorageError: An output cannot be written.
    """
    folder = Path(output)
    parts = _outputs(table_files(data), folder)
    descriptor = lock(folder)
    try:
        record = _Record(folder, _described(run, options))
        missing = [name for name, source in parts.items() if not record.has(name, source)]
        jobs = completed(
            _predict, missing,
            lambda name: (task, run, parts[name], folder / name, options, device), n_jobs, "files",
        )  # fmt: skip
        for name, state in jobs:
            record.add(name, state)
    finally:
        atomic.remove_leftovers(folder, say)
        os.close(descriptor)
    there = f"; {len(parts) - len(missing)} were there" if len(missing) < len(parts) else ""
    say(f"{folder}: predictions of {len(parts)} files{there}")


class _Record:
    """The outputs of a folder that are complete, with the state of their inputs."""

    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        self.folder = folder
        self.values: dict[str, Any] = {**described, "parts": {}}
        path = folder / RECORD
        if path.exists():
            try:
                found = parse_json(read_bytes(path, _LARGEST))
                is_same = {**found, "parts": {}} == self.values
            except (OSError, ValueError, TypeError) as error:
                fix = "Delete the folder, or choose another one."
                raise DataError(f"cannot be used: {error}", file=path, fix=fix) from None
            if not is_same:
                fix = "Choose another folder."
                raise DataError("holds predictions of another model", file=folder, fix=fix)
            self.values = found
        elif any(one.name != LOCK for one in folder.iterdir()):
            fix = "Choose an empty or a new folder."
            raise DataError("holds other files", file=folder, fix=fix)
        else:
            atomic.write_json(path, self.values)

    def has(self, name: str, source: Path) -> bool:
        """Return True if the output is there and its input is that of now."""
        state = self.values["parts"].get(name)
        return state is not None and state == _state(source) and (self.folder / name).is_file()

    def add(self, name: str, state: list[int]) -> None:
        """Note that an output is complete."""
        self.values["parts"][name] = state
        atomic.write_json(self.folder / RECORD, self.values)


def _outputs(files: Iterable[Path], folder: Path) -> dict[str, Path]:
    """Return the inputs by the name of their output."""
    if folder.is_file():
        raise DataError("is a file", file=folder, fix="With --jobs, give -o the name of a folder.")
    found: dict[str, Path] = {}
    for path in files:
        name = f"{uncompressed(path).stem}.csv"
        if name in found:
            fix = "Predict them into folders of their own."
            raise DataError(f"has the same name as {found[name]}", file=path, fix=fix)
        if path.resolve() == (folder / name).resolve():
            raise DataError("is the input", file=folder / name, fix="Give -o another folder.")
        found[name] = path
    return found


def _described(run: str | Path, options: Sequence[Any]) -> dict[str, Any]:
    """Return what predictions depend on besides their input."""
    files = (Path(run, name) for name in OF_PREDICTIONS)
    model = {one.name: hashlib.sha256(one.read_bytes()).hexdigest()
             for one in files if one.is_file()}  # fmt: skip
    return {"format": "representer predictions 1", "model": model, "options": repr(options)}


def _state(path: Path) -> list[int]:
    """Return size and time of a file."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _predict(
    task: Task, run: str, source: Path, output: Path, options: Sequence[Any], device: str
) -> list[int]:
    """Predict one file; return its state before it was read."""
    state = _state(source)
    task.function("predict")(run, source, output, *options, device=device)
    return state
