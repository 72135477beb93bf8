"""``representer predict RUN DATA -o OUT.csv``: predict the rows of a table, or recordings."""

from __future__ import annotations

from typing import Any

from representer.cli.run_options import add_run_and_options, data_of, task_and_options

SUMMARY = "Predict the texts or molecules of a table, graphs, or recordings, with a trained model."


def add_arguments(parser: Any) -> None:
    """Add the run, the data, where to write, and the options of every task."""
    add_run_and_options(parser, "predict")
    parser.add_argument(
        "-o", "--output", type=str | None, help="CSV file to write; default: stdout",
        metavar="OUT.csv",
    )  # fmt: skip


def run(arguments: Any) -> None:
    """Write the rows of the input, in order, each with a prediction and its confidence."""
    task, options = task_and_options(arguments, "predict")
    data = data_of(task, arguments)
    task.function("predict")(
        arguments.run, data, arguments.output, *options, device=arguments.device
    )
