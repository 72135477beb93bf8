"""``representer cells``: L19 Table 1, computed for given sizes."""

from __future__ import annotations

import json
from typing import Any

from representer.cli.parser import PlainCommand, add_number

CELLS_SUMMARY = "List the cells with their equations and parameter counts."


def add_cells_arguments(parser: Any) -> None:
    """Add m, d and n of the table."""
    add_number(parser, "--input-size", 300, "m, input features")
    add_number(parser, "--hidden-size", 300, "d, hidden units")
    add_number(parser, "--filter-length", 1, "n, length of the n-gram filters")


def run_cells(arguments: Any) -> None:
    """Print the table."""
    from representer.tasks.doctor import cells_table

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
}
