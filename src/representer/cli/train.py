"""The commands that train: ``fit``, ``compare`` and ``reproduce``."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from representer.cli.errors import UsageError, did_you_mean
from representer.cli.main import add_launch, is_restarted, launch
from representer.cli.parser import PlainCommand, add_number, add_options
from representer.errors import ArgumentError, print_line, say, show
from representer.machine import busy_note, limited
from representer.options.task import Task
from representer.training.interruption import stopping


class Fit:
    """The command of one task."""

    def __init__(self, task: Task) -> None:
        self.task, self.summary, self.defaults = task, task.summary, task.defaults

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
        declared = self.task.config
        values = {field.name: arguments[field.name] for field in fields(declared)}
        config = declared(**values | ({"resume": True} if is_restarted() else {}))
        note = "" if values.get("threads") or not sys.stderr.isatty() else busy_note()
        if note:
            say(note)
        show_what_is_read(values)
        with stopping(), limited(values.get("threads") or None):
            fit = self.task.function("fit")
            from representer.training.generators import keep_freed_memory

            keep_freed_memory()
            fit(config)


def show_what_is_read(options: dict[str, Any]) -> None:
    """Write the first line of a command before torch is imported, which takes seconds."""
    if source := options.get("data") or ("the demo" if options.get("demo") else None):
        print_line(f"reading {source} ...", sys.stdout)


# ``representer compare DATA``: kernel, network, both and baselines on repeated splits.

TEST_FRACTION = 0.2  # a tenth of a small table is too little to tell models apart
_SET_HERE = (
    "out", "resume", "answer", "conformal", "conformal_by", "jobs", "folds", "test_subjects",
    "log_with",
)  # fmt: skip


class Compare:
    """The command of one task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.summary = f"Compare models and baselines on repeated splits of {task.noun}."

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
        parser.add_argument("--json", action="store_true", help="print the table as a JSON array")

    def defaults(self, given: Any) -> dict[str, Any]:
        """Return the defaults of ``fit``, but for the test part."""
        usual = {"test_fraction": TEST_FRACTION} if "test_fraction" in given else {}
        chosen = self.task.defaults(given) | usual
        return {name: value for name, value in chosen.items() if name in given}

    def run(self, arguments: Any) -> None:
        """Run what is missing, write the table and print it."""
        config = self.task.config
        typed = {
            field.name: arguments[field.name] for field in fields(config) if field.name in arguments
        }
        if arguments.splits is not None and arguments.splits < 2:
            raise ArgumentError("splits", arguments.splits, "2 or more")
        if arguments.jobs < 0:
            raise ArgumentError("jobs", arguments.jobs, "0 or more")
        chosen = config(**typed)
        if not arguments.json:
            show_what_is_read(typed)
        comparison = self.task.function("comparison")(
            chosen,
            variants=self._variants(arguments),
            **({"splits": range(arguments.splits)} if arguments.splits else {}),
        )
        from representer.tasks.comparison import run_and_report
        from representer.training.generators import keep_freed_memory

        keep_freed_memory()
        name = Path(arguments.data or f"{self.task.name}-demo").name.partition(".")[0]
        table = run_and_report(
            comparison, Path(arguments.out or f"runs/compare-{name}"),
            jobs=arguments.jobs or os.cpu_count() or 1,
            command=shlex.join(["representer", *sys.argv[1:]]), as_json=arguments.json,
        )  # fmt: skip
        if arguments.json:
            return
        if table.rows and not table.rows[0].is_baseline:
            show(f"Train it: {self.fit_command(table.rows[0].name, chosen, arguments)}")

    def fit_command(self, row: str, config: Any, given: Any) -> str:
        """Return the command that trains the model of a row.

        It is ``kernel``, ``network``, ``both``, or ``network`` with the cell of a variant;
        ``given`` are the parsed options, of which the defaults are those of this command.
        """
        from representer.options.task import command_of

        answer, _, variant = row.partition(", ")
        usual = {field.name: field.default for field in fields(config)} | self.defaults(given)
        other = {self._option(): variant} if variant else {}
        return command_of(
            self.task.name, replace(config, answer=answer, **other), usual | {"answer": None}
        )

    def _option(self) -> str:
        """Return the option of a variant."""
        return "cell" if "cell" in {field.name for field in fields(self.task.config)} else "network"

    def _variants(self, arguments: Any) -> dict[str, dict[str, str]]:
        words = [word.strip() for word in (arguments.cells or "").split(",") if word.strip()]
        option = self._option()
        if words and option not in {field.name for field in fields(self.task.config)}:
            raise ArgumentError(
                "cells", arguments.cells, f"none: networks of {self.task.name} data have no cells"
            )
        if words and option == "cell":
            from representer.models.cells import resolve_cell

            for word in words:
                resolve_cell(word)  # raises now what would fail later
        return {f"network, {word}": {option: word} for word in words}


# ``representer reproduce NAME``: reproduce a table of a paper, within a budget.

REPRODUCE_SUMMARY = "Reproduce a table of a paper; `reproduce list` lists them."


def add_reproduce_arguments(parser: Any) -> None:
    """Add the recipe and its options."""
    parser.add_argument("name", type=str, help="recipe, or list", metavar="NAME")
    parser.add_argument(
        "--data", type=str, default=os.environ.get("REPRESENTER_DATA", "data"), metavar="DIR",
        help="folder with the datasets; default: $REPRESENTER_DATA",
    )  # fmt: skip
    help_text = "folder for the runs and the table; default: runs/NAME"
    parser.add_argument("--out", type=str | None, help=help_text, metavar="DIR")
    parser.add_argument(
        "--budget", type=float, default=1.0, help="fraction of the training steps, in (0, 1]"
    )
    parser.add_argument("--smoke", action="store_true", help="a tiny run that checks the setup")
    help_text = "run nothing; write the table of the finished runs"
    parser.add_argument("--json", action="store_true", help="of list: every row as JSON")
    parser.add_argument("--table-only", action="store_true", help=help_text)
    help_text = "folder for the results, a JSON line a run; default: results.jsonl in --out"
    parser.add_argument("--record", type=str | None, help=help_text, metavar="DIR")
    for option, chosen in (
        ("--seeds", "random seeds (default: those of the recipe)"), ("--datasets", "subset"),
        ("--cells", "subset"), ("--filter-lengths", "subset"),
        ("--lengths", "subset of the sequence lengths"),
    ):  # fmt: skip
        help_text = f"comma-separated {chosen}"
        parser.add_argument(option, type=str | None, help=help_text, metavar="LIST")
    parser.add_argument(
        "--preset", type=str, default="paper", help="settings: paper or authors_code"
    )
    parser.add_argument(
        "--vectors", type=str | None, help="file of pretrained word vectors", metavar="FILE"
    )
    parser.add_argument(
        "--threads", type=int, default=0, help="CPU threads; 0: the default of torch"
    )


def run_reproduce(arguments: Any) -> None:
    """Run the recipe and print its table."""
    from representer.tasks.recipe import Request, installed_recipes
    from representer.training.generators import keep_freed_memory

    recipes = installed_recipes()
    if arguments.name == "list":
        if arguments.json:
            print(json.dumps(_rows(recipes, arguments.record), ensure_ascii=False, indent=1))
            return
        for recipe in recipes.values():
            print(f"{recipe.name:<16} {recipe.source:<12} {recipe.title}")
        return
    if arguments.name not in recipes:
        hint = did_you_mean(arguments.name, list(recipes))
        raise UsageError(
            f"{arguments.name!r} is not a recipe. {hint}All of them: representer reproduce list"
        )
    keep_freed_memory()
    seeds = recipes[arguments.name].seeds[: 1 if arguments.smoke else None]
    request = Request(
        data=Path(arguments.data), out=Path(arguments.out or f"runs/{arguments.name}"),
        budget=arguments.budget, seeds=_numbers("seeds", arguments.seeds) or seeds,
        smoke=arguments.smoke, datasets=_words(arguments.datasets), cells=_words(arguments.cells),
        filter_lengths=_numbers("filter-lengths", arguments.filter_lengths),
        lengths=_numbers("lengths", arguments.lengths), preset=arguments.preset,
        vectors=arguments.vectors, threads=arguments.threads, table_only=arguments.table_only,
        record=Path(arguments.record) if arguments.record else None,
        command=shlex.join(["representer", *sys.argv[1:]]),
    )  # fmt: skip
    table = recipes[arguments.name].run(request)
    print(table.read_text(encoding="utf-8"))
    print(table)


def _rows(recipes: Any, record: str | None) -> list[dict[str, Any]]:
    """Return every row of every table, with the mean hours of its runs at the paper's length."""
    from representer.tasks.recipe import Request

    rows = []
    for recipe in recipes.values():
        path = Path(record or "docs/results/runs") / f"{recipe.name}.jsonl"
        texts = path.read_text("utf-8").splitlines() if path.exists() else []
        hours: dict[Any, list[float]] = {}
        for line in map(json.loads, texts):
            if line["hours"] and line["status"] == "finished" and not line["smoke"]:
                whole = (line["paper"] or line["planned"]) / line["planned"]
                hours.setdefault(line["row"], []).append(line["hours"] * whole)
        for preset in recipe.presets:
            request = Request(Path(), Path(), preset=preset, seeds=recipe.seeds)
            shown = {"recipe": recipe.name, "table": recipe.source, "preset": preset}
            shown["differences"] = recipe.differences_of(request)
            for row in recipe.cells or (None,):
                of_row = hours.get(row)
                mean = round(sum(of_row) / len(of_row), 3) if of_row else None
                rows.append({**shown, "row": row, "hours": mean})
    return rows


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip()) if text else ()


def _numbers(option: str, text: str | None) -> tuple[int, ...]:
    words = _words(text)
    if not all(re.fullmatch("-?[0-9]{1,18}", word) for word in words):
        raise UsageError(
            f"--{option} is {text!r}; expected comma-separated integers, such as 0,1,2."
        )
    return tuple(map(int, words))


COMMANDS = {"reproduce": PlainCommand(REPRODUCE_SUMMARY, add_reproduce_arguments, run_reproduce)}
COMMANDS_OF_TASKS = {"fit": Fit, "compare": Compare}
