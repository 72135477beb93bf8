"""Find the data sets of an experiment in the folder given by ``--data``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from representer.data.tables.files import COMPRESSIONS
from representer.data.tables.reading import physical_lines
from representer.errors import ArgumentError, DataError
from representer.report.metrics import wilson_interval
from representer.storage import atomic
from representer.tasks.objects import Data
from representer.tasks.recipe import Request
from representer.tasks.results import Baseline
from representer.tasks.text import train_baselines

D = TypeVar("D")
L = TypeVar("L")


SMOKE_ROWS = 200  # at most, of each part of a data set in a smoke run


class MissingError(DataError):
    """A data set has no file where it is expected."""


def wanted(root: Path, names: Sequence[str], known: Mapping[str, D]) -> list[D]:
    """Return the requested data sets, or all of them without a request."""
    for name in names:
        if name not in known:
            raise ArgumentError("datasets", name, f"some of {', '.join(known)}")
    if not root.is_dir():
        fix = "Pass --data DIR, or set REPRESENTER_DATA."
        raise DataError("there is no such folder", file=root, fix=fix)
    return [known[name] for name in names or known]


def located(
    root: Path, names: Sequence[str], known: Mapping[str, D], find: Callable[[Path, D], L]
) -> list[L]:
    """Return the files of the requested data sets; without a request, of all that exist.

    ``find`` raises `MissingError` for a data set without files.

    Raises:
        ArgumentError: If a name is unknown.
        DataError: If the folder or a requested data set is missing, or all of them are.
    """
    places, missing = [], []
    for dataset in wanted(root, names, known):
        try:
            places.append(find(root, dataset))
        except MissingError as error:
            missing.append(error)
    if missing and (names or not places):
        raise missing[0]
    return places


def existing(root: Path, folders: Iterable[str], names: Iterable[str]) -> Path | None:
    """Return the first file that exists in one of the folders, plain or compressed."""
    ends = ("", *COMPRESSIONS)
    paths = (root / f / f"{name}{end}" for f in folders for name in names for end in ends)
    return next((path for path in paths if path.is_file()), None)


def missing(what: str, root: Path) -> MissingError:
    """Return the error for a missing data set."""
    fix = "Add the data set, or remove it from --datasets."
    return MissingError(f"there is no {what}", file=root, fix=fix)


def for_smoke(request: Request, name: str, files: D) -> D:
    """Return a data set, for a smoke run with parts of its files, which are written to ``out``."""
    if not request.smoke:
        return files
    paths = {key: path for key, path in vars(files).items() if isinstance(path, Path)}
    parts = {key: part_of(path, request.out / "data" / name) for key, path in paths.items()}
    return replace(files, **parts)  # type: ignore[type-var]


def part_of(path: Path, folder: Path) -> Path:
    """Write rows of a file, evenly spaced, into a folder, and return the path."""
    lines = [*physical_lines(path)]
    name = path.name.removesuffix(path.suffix if path.suffix in COMPRESSIONS else "")
    if name.endswith(".csv"):  # a cell may have several lines
        rows, drawn = [*csv.reader(lines)], io.StringIO()
        csv.writer(drawn).writerows(rows[:: -(-len(rows) // SMOKE_ROWS)])
        text = drawn.getvalue()
    else:
        text = "".join(lines[:: -(-len(lines) // SMOKE_ROWS)])
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write_text(folder / name, text)
    return folder / name


# Baselines of one split, trained once and stored for all models tested on it.


def write_baselines(path: Path, data: Data) -> None:
    """Train the baselines and write their figures, their predictions and the split's sizes."""
    truth = data.values["test"]
    rows = []
    for baseline in train_baselines(data):
        right = int((baseline.predictions == truth).sum())
        rows.append(
            {
                "name": baseline.name,
                "description": baseline.description,
                "seconds": baseline.seconds,
                "accuracy": right / len(truth),
                "accuracy_interval": wilson_interval(right, len(truth)),
                "predictions": baseline.predictions.tolist(),
            }
        )
    sizes = {name: len(objects) for name, objects in data.parts.items()}
    atomic.write_json(path, {"sizes": sizes, "baselines": rows})


def read_baselines(path: Path) -> list[Baseline]:
    """Return the stored baselines."""
    return [
        Baseline(row["name"], row["description"], np.asarray(row["predictions"]), row["seconds"])
        for row in json.loads(path.read_text("utf-8"))["baselines"]
    ]
