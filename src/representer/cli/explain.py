"""``representer explain RUN DATA``: show what a prediction is made of."""

from __future__ import annotations

import sys
from typing import Any

from representer.cli.parser import add_number
from representer.cli.run_options import add_run_and_options, data_of, task_and_options
from representer.requirements import check_integer

SUMMARY = (
    "Show which words, filters of a signal, or walks over atoms or nodes the predictions of a "
    "trained model come from."
)


def add_arguments(parser: Any) -> None:
    """Add the run, the data, how much to show, and the options of every task."""
    add_run_and_options(parser, "explain")
    add_number(parser, "--limit", 10, "rows to explain, starting with the first")
    add_number(parser, "--top", 5, "n-grams, words, filters or walks to show for each")
    parser.add_argument("--report", action="store_true", help="show them in the report of RUN, too")


def run(arguments: Any) -> None:
    """Print the explanations, and write them into the run's report if that is requested."""
    for name in ("limit", "top"):
        check_integer(name, arguments[name])
    how = {name: arguments[name] for name in ("limit", "top", "device", "report")}
    task, options = task_and_options(arguments, "explain")
    data = data_of(task, arguments)
    entries = task.function("explain")(arguments.run, data, *options, **how)
    as_text, styled = task.function("as_text"), sys.stdout.isatty()
    print("\n\n".join(as_text(entry, styled=styled) for entry in entries))
