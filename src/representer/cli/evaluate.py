"""``representer evaluate RUN DATA``: test a trained model on other data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from representer.cli.parser import add_options
from representer.errors import ArgumentError
from representer.tasks.language.adaptation import Adaptation
from representer.tasks.text.text_config import ReadOptions

SUMMARY = "Test a trained model on a labelled table, or a text; prints the figures as JSON."


def add_arguments(parser: Any) -> None:
    """Add the run, the data, how to read them, and what a language model may do with them."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument("data", type=str, help="labelled table, or text", metavar="DATA")
    add_options(parser, ReadOptions)
    add_options(parser, Adaptation)


def run(arguments: Any) -> None:
    """Print the metrics as one JSON object, on the last line of stdout."""
    from representer.tasks.storage.run_files import describe

    options = read_options(arguments)
    adaptation = Adaptation(**{name: arguments[name] for name in Adaptation.__dataclass_fields__})
    if describe(Path(arguments.run)).get("task") == "language":
        from representer.tasks.language.language_use import evaluate as evaluate_language

        refuse_changed(options, "nothing, since the model is a language model")
        print(json.dumps(evaluate_language(arguments.run, arguments.data, adaptation)))
        return
    refuse_changed(adaptation, "nothing, since the model is no language model")
    from representer.tasks.text.text_use import evaluate

    print(json.dumps(evaluate(arguments.run, arguments.data, options)))


def read_options(arguments: Any) -> ReadOptions:
    """Return the options that say how to read the data."""
    return ReadOptions(**{name: arguments[name] for name in ReadOptions.__dataclass_fields__})


def refuse_changed(options: ReadOptions | Adaptation, expected: str) -> None:
    """Refuse options that have no meaning for the model of a run.

    Args:
        options: Those that must have their defaults.
        expected: What the message says.

    Raises:
        ArgumentError: If one has another value.
    """
    for name, value in vars(options).items():
        if value != getattr(type(options)(), name):
            raise ArgumentError(name, value, expected)
