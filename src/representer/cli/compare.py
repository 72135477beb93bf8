"""``representer compare DATA``: kernel, network, both and baselines on repeated splits."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from representer.cli.parser import add_number, add_options
from representer.errors import ArgumentError
from representer.printable import show
from representer.tasks.registry import TASKS
from representer.tasks.task import Task

TEST_FRACTION = 0.2  # a tenth of a small table is too little to tell models apart
_SET_HERE = ("out", "resume", "answer", "conformal", "jobs", "folds", "test_subjects", "log_with")


class Compare:
    """The command of one task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.SUMMARY = f"Compare models and baselines on repeated splits of {task.noun}."

    def add_arguments(self, parser: Any) -> None:
        """Add the options of ``fit``, and those of the comparison."""
        parser.add_argument(
            "--config", action="config", help="YAML file with these options", metavar="FILE"
        )
        add_options(parser, self.task.config, positional=("data",), skip=_SET_HERE)
        parser.add_argument(
            "--splits", type=int | None, metavar="N",
            help="number of splits (default: 5; of signals, at most one for each subject)",
        )  # fmt: skip
        parser.add_argument(
            "--cells", type=str | None, metavar="LIST",
            help="other cells to compare with, comma-separated; for graphs, other networks",
        )  # fmt: skip
        add_number(parser, "--jobs", 1, "processes; 0: one per processor")
        parser.add_argument(
            "--out", type=str | None, metavar="DIR",
            help="folder for results and table; continues there (default: runs/compare-DATA)",
        )  # fmt: skip

    def defaults(self, given: Any) -> dict[str, Any]:
        """Return the defaults of ``fit``, but for the test part."""
        usual = {"test_fraction": TEST_FRACTION} if "test_fraction" in given else {}
        chosen = self.task.defaults(given) | usual
        return {name: value for name, value in chosen.items() if name in given}

    def run(self, arguments: Any) -> None:
        """Run what is missing, write the table and print it."""
        config = self.task.config
        given = {one.name: arguments[one.name] for one in fields(config) if one.name in arguments}
        if arguments.splits is not None and arguments.splits < 2:
            raise ArgumentError("splits", arguments.splits, "2 or more")
        if arguments.jobs < 0:
            raise ArgumentError("jobs", arguments.jobs, "0 or more")
        chosen = config(**given)
        comparison = self.task.function("comparison")(
            chosen,
            variants=self._variants(arguments),
            **({"splits": range(arguments.splits)} if arguments.splits else {}),
        )
        from representer.tasks.comparison_table import run_and_report
        from representer.training.freed_memory import keep_freed_memory

        keep_freed_memory()
        name = Path(arguments.data or f"{self.task.name}-demo").name.partition(".")[0]
        table = run_and_report(
            comparison,
            Path(arguments.out or f"runs/compare-{name}"),
            jobs=arguments.jobs or os.cpu_count() or 1,
            command=shlex.join(["representer", *sys.argv[1:]]),
        )
        if table.rows and not table.rows[0].is_baseline:
            show(f"Train it: {self.fit_command(table.rows[0].name, chosen, arguments)}")

    def fit_command(self, row: str, config: Any, given: Any) -> str:
        """Return the command that trains the model of a row.

        Args:
            row: ``kernel``, ``network``, ``both``, or ``network`` with the cell of a variant.
            config: Options of the comparison.
            given: The parsed options, of which the defaults are those of this command.
        """
        from representer.tasks.options import command_of

        answer, _, variant = row.partition(", ")
        usual = {one.name: one.default for one in fields(config)} | self.defaults(given)
        other = {self._option(): variant} if variant else {}
        return command_of(
            self.task.name, replace(config, answer=answer, **other), usual | {"answer": None}
        )

    def _option(self) -> str:
        """Return the option of a variant."""
        return "cell" if "cell" in {one.name for one in fields(self.task.config)} else "network"

    def _variants(self, arguments: Any) -> dict[str, dict[str, str]]:
        words = [word.strip() for word in (arguments.cells or "").split(",") if word.strip()]
        option = self._option()
        if words and option == "cell":
            from representer.models.cells import resolve_cell

            for word in words:
                resolve_cell(word)  # raises now what would fail later
        return {f"network, {word}": {option: word} for word in words}


def command(name: str) -> Compare:
    """Return the command ``compare TASK``."""
    return Compare(TASKS[name.split()[1]])
