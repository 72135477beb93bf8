"""``representer cells``: L19 Table 1, computed for given sizes."""

from __future__ import annotations

from typing import Any

from representer.cli.parser import add_number

SUMMARY = "List the cells with their equations and parameter counts."


def add_arguments(parser: Any) -> None:
    """Add m, d and n of the table."""
    add_number(parser, "--input-size", 300, "m, input features")
    add_number(parser, "--hidden-size", 300, "d, hidden units")
    add_number(parser, "--filter-length", 1, "n, length of the n-gram filters")


def run(arguments: Any) -> None:
    """Print the table."""
    from representer.tasks.cells_table import cells_table

    print(cells_table(arguments.input_size, arguments.hidden_size, arguments.filter_length))
