"""The commands that use a run, such as ``evaluate`` and ``predict``; ``drift`` and ``doctor``."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import fields
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from representer.checks import check_integer
from representer.cli.parser import (
    PlainCommand,
    add_device,
    add_number,
    add_options,
    add_run_and_options,
    data_of,
    path_of,
    task_and_options,
)
from representer.errors import ArgumentError, printable, say
from representer.options.registry import task_of_run
from representer.options.task import Task

EVALUATE_SUMMARY = (
    "Evaluate a trained model on a labeled table, graphs, recordings or a text; print JSON."
)


def add_evaluate_arguments(parser: Any) -> None:
    """Add the run, the data, and the options of every task."""
    add_run_and_options(parser, "evaluate")


def run_evaluate(arguments: Any) -> None:
    """Print the metrics as one JSON object, on the last line of stdout."""
    task, options = task_and_options(arguments, "evaluate")
    evaluate = task.function("evaluate")
    metrics = evaluate(arguments.run, path_of(arguments), *options, device=arguments.device)
    print(json.dumps(metrics))


# ``representer predict RUN DATA -o OUT.csv``: predict the rows of a table, or recordings.

BACKENDS = ("loky", "dask", "ray")
PREDICT_SUMMARY = (
    "Predict the texts or molecules of a table, graphs, or recordings, with a trained model."
)


def add_predict_arguments(parser: Any) -> None:
    """Add the run, the data, where to write, and the options of every task."""
    add_run_and_options(parser, "predict")
    parser.add_argument(
        "-o", "--output", type=str | None, metavar="OUT.csv",
        help="CSV file to write; -, the default, is stdout; with --jobs, a folder",
    )  # fmt: skip
    parser.add_argument(
        "--jobs", type=int | None, metavar="N",
        help="predict the files of DATA, a folder or a pattern, by so many workers, each into a "
        "file of its own",
    )  # fmt: skip
    parser.add_argument(
        "--backend", type=str, choices=BACKENDS, default="loky",
        help="of --jobs: processes (loky), or workers of a Dask or Ray cluster (default: loky)",
    )  # fmt: skip
    parser.add_argument(
        "--address", type=str | None, metavar="HOST:PORT",
        help="of --backend: the Dask scheduler, or auto on a machine of a Ray cluster; default: "
        "workers are started here",
    )  # fmt: skip


def run_predict(arguments: Any) -> None:
    """Write the rows of the input, in order, each with a prediction and its confidence."""
    task, options = task_and_options(arguments, "predict")
    output = None if arguments.output == "-" else arguments.output
    data = data_of(task, arguments)
    if arguments.jobs is not None:
        _predict_parts(arguments, task, data, options)
        return
    for name, usual in (("backend", "loky"), ("address", None)):
        if arguments[name] != usual:
            raise ArgumentError(name, arguments[name], "nothing without --jobs")
    task.function("predict")(arguments.run, data, output, *options, device=arguments.device)


def _predict_parts(arguments: Any, task: Any, data: Any, options: list[Any]) -> None:
    if arguments.jobs < 1:
        raise ArgumentError("jobs", arguments.jobs, "1 or more")
    if not isinstance(data, str) or arguments.data == "-":
        raise ArgumentError("jobs", arguments.jobs, "nothing with --input or standard input")
    if arguments.output in (None, "-"):
        raise ArgumentError("output", arguments.output, "a folder, since --jobs is given")
    if arguments.backend == "loky" and arguments.address is not None:
        raise ArgumentError("address", arguments.address, "nothing with --backend loky")
    from representer.jobs import workers
    from representer.tasks.use import predict_parts

    with workers(arguments.backend, arguments.jobs, arguments.address):
        predict_parts(
            task, arguments.run, data, arguments.output, options, device=arguments.device,
            n_jobs=None if arguments.address else arguments.jobs,
        )  # fmt: skip


# ``representer explain RUN DATA``: show what a prediction is made of.

EXPLAIN_SUMMARY = (
    "Show which words, atoms, nodes, steps or channels the predictions of a trained model come "
    "from."
)


def is_colored() -> bool:
    """Return True if stdout is a terminal with colors; NO_COLOR says that it has none."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def add_explain_arguments(parser: Any) -> None:
    """Add the run, the data, how much to show, and the options of every task."""
    add_run_and_options(parser, "explain")
    add_number(parser, "--limit", 10, "rows to explain, starting with the first")
    add_number(parser, "--top", 5, "words, atoms, nodes or steps to show for each")
    parser.add_argument("--report", action="store_true", help="show them in the report of RUN, too")
    parser.add_argument(
        "--by", type=str, choices=("place", "feature"), default="place",
        help="list words, atoms, nodes or steps (place), or n-grams, walks, filters and bands "
        "(feature) (default: place)",
    )  # fmt: skip
    parser.add_argument(
        "--inside", action="store_true", help="list units or steps of the network, too"
    )
    parser.add_argument("--json", action="store_true", help="print all of it as a JSON array")


def run_explain(arguments: Any) -> None:
    """Print the explanations, and write them into the run's report if that is requested."""
    for name in ("limit", "top"):
        check_integer(name, arguments[name])
    how = {name: arguments[name] for name in ("limit", "top", "device", "report")}
    task, options = task_and_options(arguments, "explain")
    data = data_of(task, arguments)
    entries = task.function("explain")(arguments.run, data, *options, **how)
    if arguments.json:
        print(json.dumps(entries))
        return
    shown = {"by_feature": arguments.by == "feature", "inside": arguments.inside}
    as_text = partial(task.function("as_text"), styled=is_colored(), **shown)
    print("\n\n".join(map(as_text, entries)))


# ``representer suggest RUN POOL``: the objects of a pool to measure next.

SUGGEST_SUMMARY = "Suggest which objects of a pool to measure next, by batch expected improvement."


def add_suggest_arguments(parser: Any) -> None:
    """Add the run, the pool, how many to suggest, costs and constraints."""
    add_run_and_options(parser, "suggest")
    add_number(parser, "--count", 10, "objects to suggest", "-k")
    parser.add_argument(
        "--minimize", action="store_true", help="look for small numbers instead of large ones"
    )
    parser.add_argument(
        "--cost", type=str | None, metavar="COLUMN",
        help="column of the pool with the cost of each measurement, which divides the improvement",
    )  # fmt: skip
    parser.add_argument(
        "--where", action="append", type=str, metavar="CONDITION",
        help="constraint on a column of the pool, such as 'weight<=500'; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--best", type=float | None, metavar="X",
        help="number to improve on (default: the best prediction for a training object)",
    )  # fmt: skip
    parser.add_argument(
        "--of", type=str | None, metavar="TARGET", help="which of several targets (default: first)"
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=str | None, metavar="OUT.csv",
        help="CSV file to write; -, the default, is stdout",
    )  # fmt: skip


def run_suggest(arguments: Any) -> None:
    """Write the rows of the pool to measure, the most promising first."""
    task, options = task_and_options(arguments, "suggest")
    task.function("suggest")(
        arguments.run, path_of(arguments), *options, k=arguments.count,
        maximize=not arguments.minimize, cost=arguments.cost, where=arguments.where or (),
        best=arguments.best, of=arguments.of, device=arguments.device,
        output=None if arguments.output == "-" else arguments.output,
    )  # fmt: skip


# ``representer report RUN``: rewrite report.html of a run.

REPORT_SUMMARY = "Rewrite the report of a finished run."


def add_report_arguments(parser: Any) -> None:
    """Add the run, and the page."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    page = "page to write; default: RUN/report.html"
    parser.add_argument("--out", type=str | None, help=page, metavar="FILE")


def run_report(arguments: Any) -> None:
    """Write the page and print its path."""
    from representer.report import write_report

    out = arguments.out and Path(arguments.out)
    print(write_report(Path(arguments.run), out))


# ``representer generate RUN``: continue a prompt with a trained language model.

GENERATE_SUMMARY = "Generate text from a prompt with a trained language model."


def add_generate_arguments(parser: Any) -> None:
    """Add the run, the prompt, and how to sample."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument("--prompt", type=str, default="", help="text to continue", metavar="TEXT")
    add_number(parser, "--tokens", 100, "tokens to generate", "-n")
    parser.add_argument(
        "--temperature", type=float, default=1.0, metavar="X",
        help="softmax temperature; below 1 sharpens the distribution; 0: greedy (default: 1.0)",
    )  # fmt: skip
    parser.add_argument(
        "--top-p", type=float, default=1.0, metavar="X",
        help="sample from the smallest set of tokens with this total probability (default: 1.0)",
    )  # fmt: skip
    add_number(parser, "--seed", 0, "random seed")
    add_device(parser)


def run_generate(arguments: Any) -> None:
    """Print the prompt and its continuation, token by token as it is sampled."""
    how = {name: arguments[name] for name in ("temperature", "top_p", "seed", "device")}
    task = task_of_run(arguments.run, "generate")
    pieces = task.function("generate")(arguments.run, arguments.prompt, arguments.tokens, **how)
    is_terminal = sys.stdout.isatty()
    for piece in chain([arguments.prompt], pieces):
        sys.stdout.write(printable(piece, keep="\n\t") if is_terminal else piece)
        sys.stdout.flush()
    sys.stdout.write("\n")


# ``representer drift FIRST SECOND``: whether two files hold data from one distribution.

LEVEL = 0.05
_LABELS = ("label", "labels")  # which are not compared


class DriftCommand:
    """The command of one task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.summary = f"Test whether two sets of {task.noun} come from one distribution."

    def add_arguments(self, parser: Any) -> None:
        """Add both files, the options of reading them, and those of the test."""
        parser.add_argument("first", type=str, help="the earlier file", metavar="FIRST")
        parser.add_argument("second", type=str, help="the later file", metavar="SECOND")
        for declared in self.task.options["drift"]:
            add_options(parser, declared, skip=_LABELS)
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
            declared(
                **{
                    field.name: arguments[field.name]
                    for field in fields(declared)
                    if field.name in arguments
                }
            )
            for declared in self.task.options["drift"]
        ]
        drift = self.task.function("drift")
        result = drift(arguments.first, arguments.second, *options, **chosen)
        print(json.dumps(result))
        how = "differ" if result["p_value"] <= LEVEL else "show no difference"
        say(f"the {self.task.noun} of both files {how} at level {LEVEL:g}: "
            f"p = {result['p_value']:.3g}")  # fmt: skip


# ``representer cells``: L19 Table 1, computed for given sizes.

CELLS_SUMMARY = "List the cells with their equations and parameter counts."


def add_cells_arguments(parser: Any) -> None:
    """Add m, d and n of the table."""
    add_number(parser, "--input-size", 300, "m, input features")
    add_number(parser, "--hidden-size", 300, "d, hidden units")
    add_number(parser, "--filter-length", 1, "n, length of the n-gram filters")


def run_cells(arguments: Any) -> None:
    """Print the table."""
    from representer.models.cells import cells_table

    print(cells_table(arguments.input_size, arguments.hidden_size, arguments.filter_length))


# ``representer doctor``: check this machine and print how to fix what fails.

DOCTOR_SUMMARY = "Check what works on this machine, and print how to fix the rest."


def add_doctor_arguments(parser: Any) -> None:
    """Add the output format."""
    help_text = "print one JSON object: usable (true or false) and findings, as in the table"
    parser.add_argument("--json", action="store_true", help=help_text)


def run_doctor(arguments: Any) -> int:
    """Print the findings; the exit code is 0 if training works."""
    from representer.tasks.doctor import as_data, as_table, examine

    findings = examine()
    data = as_data(findings)
    print(json.dumps(data, indent=2) if arguments.json else as_table(findings))
    return 0 if data["usable"] else 1


COMMANDS = {
    "cells": PlainCommand(CELLS_SUMMARY, add_cells_arguments, run_cells),
    "doctor": PlainCommand(DOCTOR_SUMMARY, add_doctor_arguments, run_doctor),
    "evaluate": PlainCommand(EVALUATE_SUMMARY, add_evaluate_arguments, run_evaluate),
    "predict": PlainCommand(PREDICT_SUMMARY, add_predict_arguments, run_predict),
    "explain": PlainCommand(EXPLAIN_SUMMARY, add_explain_arguments, run_explain),
    "suggest": PlainCommand(SUGGEST_SUMMARY, add_suggest_arguments, run_suggest),
    "report": PlainCommand(REPORT_SUMMARY, add_report_arguments, run_report),
    "generate": PlainCommand(GENERATE_SUMMARY, add_generate_arguments, run_generate),
}
COMMANDS_OF_TASKS = {"drift": DriftCommand}
