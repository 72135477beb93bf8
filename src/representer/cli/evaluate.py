"""``representer evaluate RUN DATA``: test a trained model on other data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from representer.cli.parser import add_options
from representer.errors import ArgumentError
from representer.tasks.text.text_config import ReadOptions

SUMMARY = "Test a trained model on a labelled table, or a text; prints the figures as JSON."


def add_arguments(parser: Any) -> None:
    """Add the run, the data, and how to read them."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument("data", type=str, help="labelled table, or text", metavar="DATA")
    add_options(parser, ReadOptions)


def run(arguments: Any) -> None:
    """Print the metrics as one JSON object, on the last line of stdout."""
    from representer.tasks.storage.run_files import describe

    options = read_options(arguments)
    if describe(Path(arguments.run)).get("task") == "language":
        from representer.tasks.language.language_use import evaluate as evaluate_language

        refuse_table_options(options)
        print(json.dumps(evaluate_language(arguments.run, arguments.data)))
        return
    from representer.tasks.text.text_use import evaluate

    print(json.dumps(evaluate(arguments.run, arguments.data, options)))


def read_options(arguments: Any) -> ReadOptions:
    """Return the options that say how to read the data."""
    return ReadOptions(**{name: arguments[name] for name in ReadOptions.__dataclass_fields__})


def refuse_table_options(options: ReadOptions) -> None:
    """Refuse what has no meaning for a running text, which is read as in training.

    Raises:
        ArgumentError: If a column, or how to read a table, is named.
    """
    for name, value in vars(options).items():
        if value != getattr(ReadOptions(), name):
            raise ArgumentError(name, value, "nothing, since the model is a language model")
