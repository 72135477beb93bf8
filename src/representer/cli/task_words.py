"""The task of ``compare`` and ``drift`` where the words do not name it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from representer.cli.errors import UsageError
from representer.errors import DataError, RepresenterError
from representer.tasks.registry import TASKS

_SUFFIXES = {
    ".npz": "signal", ".mat": "signal", ".fif": "signal", ".edf": "signal", ".bdf": "signal",
    ".vhdr": "signal", ".set": "signal", ".txt": "language",
    ".sdf": "molecule", ".sd": "molecule", ".mol": "molecule", ".smi": "molecule",
    ".smiles": "molecule",
}  # fmt: skip
_OWN = {
    "compare": {"splits", "cells", "jobs", "out", "config"},
    "drift": {"permutations", "limit", "seed"},
}


def with_task(command: str, words: Sequence[str]) -> list[str]:
    """Return the words after ``compare`` or ``drift`` with the task in front.

    The task is the first word, that of ``--kind``, the only one that has all given options, or
    that of the data.

    Raises:
        UsageError: There is no task that has the options and the data.
    """
    if words[0] in TASKS:
        return list(words)
    for at, word in enumerate(words):
        option, _, value = word.partition("=")
        value = value or " ".join(words[at + 1 : at + 2])
        if option == "--kind" and value in TASKS:
            return [value, *words[:at], *words[at + (1 if "=" in word else 2) :]]
    given = {word.partition("=")[0][2:].replace("-", "_") for word in words if word[:2] == "--"}
    options = _options(command)
    known = [name for name, own in options.items() if given <= own]
    if not known:
        listed = ", ".join(options)
        raise UsageError(
            f"no task has all of these options. Name the task, one of {listed}: "
            f"representer {command} TASK {'DATA' if command == 'compare' else 'FIRST SECOND'} "
            f"[options]"
        )
    data = [word for word in words if word[:1] != "-" and Path(word).exists()]
    found = task_of_data(Path((data or words)[0]))
    return [found if found in known else known[0], *words]


def _options(command: str) -> dict[str, set[str]]:
    """Return the names of the command's options, by task."""
    kinds = {
        name: (task.config,) if command == "compare" else task.options.get(command, ())
        for name, task in TASKS.items()
    }
    return {
        name: _OWN[command].union(*({one.name for one in fields(kind)} for kind in own))
        for name, own in kinds.items()
        if own
    }


def task_of_data(path: Path) -> str:
    """Return the task of a file or folder, by its name and its first line; "text" if in doubt."""
    from representer.data.tables.reading import kind_of, named_table, read_blocks
    from representer.data.tables.source import physical_lines, uncompressed
    from representer.storage.files import parse_json

    if path.is_dir():
        if any(path.glob("*_graph_indicator.txt*")) or named_table(path, "nodes"):
            return "graph"
        is_signal = any(_SUFFIXES.get(one.suffix) == "signal" for one in path.iterdir())
        return "signal" if is_signal or named_table(path, "recordings") else "language"
    suffix = uncompressed(path).suffix
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if kind_of(path) in ("parquet", "workbook"):
        try:
            columns = next(iter(read_blocks(path, [], header=True))).columns
        except (RepresenterError, OSError):
            return "text"  # its reader says what is wrong
        return _of_columns({name.lower() for name in columns})
    try:
        first = next(physical_lines(path), "")
    except (DataError, OSError):
        return "text"
    if suffix == ".jsonl":
        try:
            keys = {key.lower() for key in parse_json(first)}
        except (ValueError, TypeError, AttributeError):
            return "text"
        return "graph" if {"nodes", "edges"} & keys else _of_columns(keys)
    cells = first.replace("\t", ",").split(",")
    return _of_columns({cell.strip(' "\r\n').lower() for cell in cells})


def _of_columns(names: set[str]) -> str:
    from representer.data.molecules.columns import is_smiles_name
    from representer.data.tables.columns import TEXT_NAMES

    if {"file", "subject"} <= names and not names & TEXT_NAMES:
        return "signal"
    return "molecule" if any(map(is_smiles_name, names)) else "text"
