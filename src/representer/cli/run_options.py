"""Options of the commands that use a run, which depend on its task."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

from representer.cli.parser import add_options
from representer.errors import ArgumentError
from representer.tasks.registry import TASKS, task_of_run
from representer.tasks.task import Task

WITH_STRINGS = ("predict", "explain")  # the commands with --input


def add_run_and_options(parser: Any, command: str) -> None:
    """Add the run, the data, and the options that a task has for the command."""
    nouns = [task.noun for task in TASKS.values() if command in task.options]
    described = f"{', '.join(nouns[:-1])} or {nouns[-1]}: a file or a folder; -: standard input"
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    if command in WITH_STRINGS:
        parser.add_argument("data", nargs="?", type=str | None, help=described, metavar="DATA")
        parser.add_argument(
            "--input", action="append", type=str, metavar="TEXT",
            help="a single text, instead of DATA; may be repeated",
        )  # fmt: skip
    else:
        parser.add_argument("data", type=str, help=described, metavar="DATA")
    parser.add_argument(
        "--format", type=str | None, metavar="SUFFIX",
        help="of standard input: as the suffix of a file, such as csv, jsonl, npz or parquet "
        "(default: by its content)",
    )  # fmt: skip
    add_device(parser)
    for kind in _kinds(command):
        add_options(parser, kind, skip={action.dest for action in parser._actions})


def add_device(parser: Any) -> None:
    """Add the device of the network."""
    parser.add_argument(
        "--device", type=str, default="auto", metavar="DEVICE",
        help="device of the network: cpu, cuda, cuda:1, mps; auto: CUDA if there is one "
        "(default: auto)",
    )  # fmt: skip


def path_of(arguments: Any) -> str:
    """Return the path of the data; of ``-``, a temporary file with what standard input holds.

    Raises:
        ArgumentError: If a format is given for another path.
    """
    suffix = (arguments.format or "").lstrip(".")
    if arguments.data != "-":
        if suffix:
            raise ArgumentError("format", suffix, "nothing unless DATA is -")
        return arguments.data
    folder = tempfile.mkdtemp(prefix="representer-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, f"stdin.{suffix}" if suffix.replace(".", "").isalnum() else "stdin")
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return str(path)


def data_of(task: Task, arguments: Any) -> str | list[str]:
    """Return the path of the data, or the strings of ``--input``.

    Raises:
        ArgumentError: If there are neither or both, or the task does not take strings.
    """
    if arguments.input is None:
        if arguments.data is None:
            hint = "For a single text: --input TEXT" if task.takes_strings else ""
            raise ArgumentError("data", None, "a file or a folder", hint=hint)
        return path_of(arguments)
    if not task.takes_strings:
        expected = f"a file or a folder as DATA, since the model is one of {task.noun}"
        raise ArgumentError("input", arguments.input[0], expected)
    if arguments.data is not None:
        raise ArgumentError("input", arguments.input[0], "nothing beside DATA")
    return arguments.input


def task_and_options(arguments: Any, command: str) -> tuple[Task, list[Any]]:
    """Return the task of the run, and its options.

    Raises:
        DataError: If there is no such run.
        ArgumentError: If an option is given that the task does not have.
    """
    task = task_of_run(arguments.run, command)
    own = task.options[command]
    known = {field.name for kind in own for field in fields(kind)}
    for field in (field for kind in _kinds(command) for field in fields(kind)):
        value = arguments[field.name]
        if field.name not in known and value != field.default:
            expected = f"nothing, since the model is one of {task.noun}"
            raise ArgumentError(field.name, value, expected)
    return task, [kind(**{f.name: arguments[f.name] for f in fields(kind)}) for kind in own]


def _kinds(command: str) -> list[type[Any]]:
    kinds = (kind for task in TASKS.values() for kind in task.options.get(command, ()))
    return list(dict.fromkeys(kinds))
