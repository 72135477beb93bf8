"""``representer sweep TASK DATA``: search the options of ``fit`` on validation data."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from representer.cli.parser import add_number, add_options
from representer.errors import ArgumentError
from representer.tasks.packages import require
from representer.tasks.registry import TASKS
from representer.tasks.sweep_space import SPACE, searched
from representer.tasks.task import Task

SAMPLERS = ("tpe", "random")
_SET_HERE = ("out", "resume", "answer", "conformal", "baselines", "fsdp", "log_with")


class Sweep:
    """The command of one task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.SUMMARY = f"Search the options of `fit {task.name}` with optuna."

    def add_arguments(self, parser: Any) -> None:
        """Add the options of ``fit``, and those of the search."""
        parser.add_argument(
            "--config", action="config", help="YAML file with these options", metavar="FILE"
        )
        add_options(parser, self.task.config, positional=("data",), skip=_SET_HERE)
        listed = ", ".join(name.replace("_", "-") for name in SPACE)
        parser.add_argument(
            "--space", type=str | None, metavar="LIST",
            help=f"options to search, comma-separated, of {listed}",
        )  # fmt: skip
        add_number(parser, "--trials", 20, "number of trials, earlier ones included")
        add_number(parser, "--seeds", 1, "networks per trial, of which the mean counts")
        parser.add_argument(
            "--sampler",
            type=str,
            default="tpe",
            metavar="NAME",
            help="tpe or random (default: tpe)",
        )
        parser.add_argument(
            "--out", type=str | None, metavar="DIR",
            help="folder for the trials; continues there (default: runs/sweep-DATA)",
        )  # fmt: skip

    def defaults(self, given: Any) -> dict[str, Any]:
        """Return the defaults of ``fit``."""
        return {name: value for name, value in self.task.defaults(given).items() if name in given}

    def run(self, arguments: Any) -> None:
        """Run the trials that are missing, and print the best command on stdout."""
        kind = self.task.config
        given = {one.name: arguments[one.name] for one in fields(kind) if one.name in arguments}
        config = kind(**given)
        for name in ("trials", "seeds"):
            if arguments[name] < 1:
                raise ArgumentError(name, arguments[name], "1 or more")
        if arguments.sampler not in SAMPLERS:
            raise ArgumentError("sampler", arguments.sampler, " or ".join(SAMPLERS))
        space = searched(config, arguments.space)
        require("sweep", "optuna")
        name = Path(arguments.data or f"{self.task.name}-demo").name.partition(".")[0]
        sweep = self.task.function("sweep")(config, space, arguments.seeds)
        out = Path(arguments.out or f"runs/sweep-{name}")
        best = sweep.run(out, arguments.trials, arguments.sampler)
        print(sweep.command(best, self.task.defaults(config)))


def command(name: str) -> Sweep:
    """Return the command ``sweep TASK``."""
    return Sweep(TASKS[name.split()[1]])
