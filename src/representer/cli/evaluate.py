"""``representer evaluate RUN DATA``: evaluate a trained model on other data."""

from __future__ import annotations

import json
from typing import Any

from representer.cli.run_options import add_run_and_options, path_of, task_and_options

SUMMARY = "Evaluate a trained model on a labeled table, graphs, recordings or a text; print JSON."


def add_arguments(parser: Any) -> None:
    """Add the run, the data, and the options of every task."""
    add_run_and_options(parser, "evaluate")


def run(arguments: Any) -> None:
    """Print the metrics as one JSON object, on the last line of stdout."""
    task, options = task_and_options(arguments, "evaluate")
    evaluate = task.function("evaluate")
    metrics = evaluate(arguments.run, path_of(arguments), *options, device=arguments.device)
    print(json.dumps(metrics))
