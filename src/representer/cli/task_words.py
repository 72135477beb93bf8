"""The task of ``compare`` and ``drift`` where the words do not name it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from representer.cli.errors import UsageError
from representer.errors import RepresenterError
from representer.tasks.registry import TASKS

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
    """Return the task of a file or folder, by its name and its first rows; "text" if in doubt."""
    from representer.data.graphs.tu import tu_folders
    from representer.data.tables import formats
    from representer.data.tables.reading import named_table, read_blocks, table_format

    if path.is_dir():
        if tu_folders(path) or named_table(path, "nodes"):
            return "graph"
        suffixes = {formats.TASKS.get(formats.format_of(one) or "") for one in path.iterdir()}
        is_signal = "signal" in suffixes or named_table(path, "recordings")
        return "signal" if is_signal else "language"
    if task := formats.TASKS.get(formats.format_of(path) or ""):
        return task
    try:
        if table_format(path) == "lines":
            return "language"
        columns = next(iter(read_blocks(path, ["smiles"], header=True))).columns
    except (RepresenterError, OSError):
        return "text"  # its reader says what is wrong
    return _of_columns({name.lower() for name in columns})


def _of_columns(names: set[str]) -> str:
    from representer.data.molecules.columns import is_smiles_name
    from representer.data.tables.columns import TEXT_NAMES

    if {"nodes", "edge_index"} & names:
        return "graph"
    if {"file", "subject"} <= names and not names & TEXT_NAMES:
        return "signal"
    return "molecule" if any(map(is_smiles_name, names)) else "text"
