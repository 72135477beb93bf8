"""``representer fit TASK DATA``: train a model, test it, and write its run folder."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

from representer.cli.launch import add_launch, is_restarted, launch
from representer.cli.parser import add_options
from representer.printable import say
from representer.tasks.registry import TASKS
from representer.tasks.task import Task
from representer.threads import busy_note, limited
from representer.training.interruption import stopping


class Fit:
    """The command of one task."""

    def __init__(self, task: Task) -> None:
        self.task, self.SUMMARY, self.defaults = task, task.summary, task.defaults

    def add_arguments(self, parser: Any) -> None:
        """Add one option per field of the task's configuration."""
        parser.add_argument(
            "--config", action="config", help="YAML file with these options", metavar="FILE"
        )
        add_options(parser, self.task.config, positional=("data",))
        if self.task.is_shared:
            add_launch(parser)

    def run(self, arguments: Any) -> None:
        """Train, test, and write the run folder."""
        if self.task.is_shared:
            launch(arguments)
        kind = self.task.config
        values = {field.name: arguments[field.name] for field in fields(kind)}
        config = kind(**values | ({"resume": True} if is_restarted() else {}))
        note = "" if values.get("threads") or not sys.stderr.isatty() else busy_note()
        if note:
            say(note)
        with stopping(), limited(values.get("threads") or None):
            fit = self.task.function("fit")
            from representer.training.freed_memory import keep_freed_memory

            keep_freed_memory()
            fit(config)


def command(name: str) -> Fit:
    """Return the command ``fit TASK``."""
    return Fit(TASKS[name.split()[1]])
