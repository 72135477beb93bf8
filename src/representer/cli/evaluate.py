"""``representer evaluate RUN DATA``: test a trained model on other data."""

from __future__ import annotations

import json
from typing import Any

from representer.cli.parser import add_options
from representer.tasks.text.text_config import ReadOptions

SUMMARY = "Test a trained model on a labelled table; prints the figures as JSON."


def add_arguments(parser: Any) -> None:
    """Add the run, the data, and how to read them."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument("data", type=str, help="labelled table", metavar="DATA")
    add_options(parser, ReadOptions)


def run(arguments: Any) -> None:
    """Print the metrics as one JSON object, on the last line of stdout."""
    from representer.tasks.text.text_use import evaluate

    print(json.dumps(evaluate(arguments.run, arguments.data, read_options(arguments))))


def read_options(arguments: Any) -> ReadOptions:
    """Return the options that say how to read the data."""
    return ReadOptions(**{name: arguments[name] for name in ReadOptions.__dataclass_fields__})
