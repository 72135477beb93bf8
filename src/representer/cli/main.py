"""The command ``representer``: find the command, parse its options, run it.

Nothing here imports torch, so ``--help`` is fast.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from representer import __version__
from representer.cli.errors import UsageError, did_you_mean, guarded, in_option_words
from representer.errors import RepresenterError
from representer.tasks.registry import TASKS
from representer.threads import wait_asleep

COMMANDS = {
    **{f"fit {name}": "representer.cli.fit" for name in TASKS},
    **{
        f"compare {name}": "representer.cli.compare"
        for name, task in TASKS.items()
        if "comparison" in task.functions
    },
    **{
        f"drift {name}": "representer.cli.drift"
        for name, task in TASKS.items()
        if "drift" in task.options
    },
    "evaluate": "representer.cli.evaluate",
    "predict": "representer.cli.predict",
    "generate": "representer.cli.generate",
    "explain": "representer.cli.explain",
    "report": "representer.cli.report",
    "export": "representer.cli.export",
    "serve": "representer.cli.serve",
    "demo": "representer.cli.demo",
    "cells": "representer.cli.cells",
    "doctor": "representer.cli.doctor",
    "reproduce": "representer.cli.reproduce",
}
WITHOUT_TASK = ("compare", "drift")  # their task may be that of the data


class Command(Protocol):
    """The interface of a command's module; ``defaults(arguments)`` is optional."""

    SUMMARY: str

    def add_arguments(self, parser: Any) -> None:
        """Add the command's arguments to a jsonargparse parser."""
        ...

    def run(self, arguments: Any) -> int | None:
        """Run the command; None is exit code 0."""
        ...


def entry_point(argv: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        argv: The words after ``representer``; those of the process if left out.

    Returns:
        The exit code: 0, or that of the error.
    """
    wait_asleep()
    words = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell; the next file must not take its place
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    is_debug = "--debug" in words
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a letter that the terminal lacks is not an error
            stream.reconfigure(errors="replace")
    written = warnings.formatwarning
    if not is_debug:  # without the place in the code and the line that stands there
        warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    try:
        return guarded(lambda: _run([w for w in words if w != "--debug"]), is_debug=is_debug)
    finally:
        warnings.formatwarning = written


def load(name: str) -> Command:
    """Import the module of a command."""
    module = importlib.import_module(COMMANDS[name])
    return cast(Command, module.command(name) if " " in name else module)


def _run(words: list[str]) -> int:
    for word in words:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UsageError(f"{word!r} is not valid UTF-8. Rename the file or folder.")
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview(COMMANDS))
        return 0 if words else 2
    if words[0] == "--version":
        print(f"representer {__version__}")
        return 0
    name, rest = _find_command(words)
    if name is None:
        print(_overview([c for c in COMMANDS if c.split()[0] == words[0]]))
        return 0
    from representer.cli.parser import parse, shown_names

    command = load(name)
    arguments = parse(name, command, rest)
    if arguments is None:
        return 0
    try:
        return command.run(arguments) or 0
    except RepresenterError as error:
        error.args = (in_option_words(str(error), shown_names(name, command)),)
        raise


def _find_command(words: list[str]) -> tuple[str | None, list[str]]:
    """Split the words into the command's name and its arguments; None for the help of a group."""
    if words[0] in WITHOUT_TASK and words[1:] and words[1] not in ("-h", "--help"):
        from representer.cli.task_words import with_task

        words = [words[0], *with_task(words[0], words[1:])]
    for length in (2, 1):
        if " ".join(words[:length]) in COMMANDS:
            return " ".join(words[:length]), words[length:]
    kinds = [c.split()[1] for c in COMMANDS if c.split()[0] == words[0] and " " in c]
    if not kinds:
        hint = did_you_mean(words[0], sorted({c.split()[0] for c in COMMANDS}))
        raise UsageError(f"{words[0]!r} is not a command. {hint}All of them: representer --help")
    if len(words) == 1:
        raise UsageError(
            f"{words[0]!r} needs a task; expected one of: {', '.join(kinds)}. "
            f"Try: representer {words[0]} {kinds[0]} --help"
        )
    if words[1] in ("-h", "--help"):
        return None, []
    hint = did_you_mean(words[1], kinds)
    raise UsageError(
        f"{words[1]!r} is not a command of `representer {words[0]}`; expected one of: "
        f"{', '.join(kinds)}. {hint}"
    )


def _overview(names: Sequence[str] | dict[str, str]) -> str:
    lines = ["usage: representer COMMAND [options]", "", "commands:"]
    lines += [f"  {name:<12} {load(name).SUMMARY}" for name in names]
    lines += ["", "Options of one command:  representer COMMAND --help"]
    lines += ["With the whole traceback of an error:  --debug"]
    return "\n".join(lines)
