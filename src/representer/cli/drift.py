"""``representer drift FIRST SECOND``: whether two files hold data from one distribution."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from representer.cli.parser import add_number, add_options
from representer.errors import ArgumentError
from representer.printable import say
from representer.tasks.registry import TASKS
from representer.tasks.task import Task

LEVEL = 0.05
_LABELS = ("label", "labels")  # which are not compared


class Drift:
    """The command of one task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.SUMMARY = f"Test whether two sets of {task.noun} come from one distribution."

    def add_arguments(self, parser: Any) -> None:
        """Add both files, the options of reading them, and those of the test."""
        parser.add_argument("first", type=str, help="the earlier file", metavar="FIRST")
        parser.add_argument("second", type=str, help="the later file", metavar="SECOND")
        for kind in self.task.options["drift"]:
            add_options(parser, kind, skip=_LABELS)
        add_number(parser, "--permutations", 999, "random exchanges of the files' rows")
        add_number(parser, "--limit", 1000, "rows of each file; more are drawn at random")
        add_number(parser, "--seed", 0, "of both")

    def run(self, arguments: Any) -> None:
        """Print the result as one JSON object on stdout, and as a sentence on stderr."""
        chosen = {name: arguments[name] for name in ("permutations", "limit", "seed")}
        for name, least in (("permutations", 1), ("limit", 2), ("seed", 0)):
            if chosen[name] < least:
                raise ArgumentError(name, chosen[name], f"{least} or more")
        options = [
            kind(**{one.name: arguments[one.name] for one in fields(kind) if one.name in arguments})
            for kind in self.task.options["drift"]
        ]
        drift = self.task.function("drift")
        found = drift(arguments.first, arguments.second, *options, **chosen)
        print(json.dumps(found))
        how = "differ" if found["p_value"] <= LEVEL else "show no difference"
        say(f"the {self.task.noun} of both files {how} at level {LEVEL:g}: "
            f"p = {found['p_value']:.3g}")  # fmt: skip


def command(name: str) -> Drift:
    """Return the command ``drift TASK``."""
    return Drift(TASKS[name.split()[1]])
