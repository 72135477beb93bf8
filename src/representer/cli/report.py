"""``representer report RUN``: rewrite report.html of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SUMMARY = "Rewrite the report of a finished run."


def add_arguments(parser: Any) -> None:
    """Add the run."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")


def run(arguments: Any) -> None:
    """Write the page and print its path."""
    from representer.report import write_report

    print(write_report(Path(arguments.run)))
