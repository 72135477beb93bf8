"""``representer predict RUN DATA -o OUT.csv``: classify texts with a trained model."""

from __future__ import annotations

from typing import Any

from representer.cli.evaluate import read_options
from representer.cli.parser import add_options
from representer.tasks.text.text_config import ReadOptions

SUMMARY = "Classify the rows of a table with a trained model."


def add_arguments(parser: Any) -> None:
    """Add the run, the data, where to write, and how to read."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument("data", type=str, help="table with texts", metavar="DATA")
    parser.add_argument(
        "-o", "--output", type=str | None, help="CSV file to write; stdout if left out",
        metavar="OUT.csv",
    )  # fmt: skip
    add_options(parser, ReadOptions)


def run(arguments: Any) -> None:
    """Write the rows of the input, in order, with a prediction and its probabilities."""
    from representer.tasks.text.text_use import predict

    predict(arguments.run, arguments.data, arguments.output, read_options(arguments))
