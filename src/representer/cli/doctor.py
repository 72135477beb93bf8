"""``representer doctor``: check this machine and print how to fix what fails."""

from __future__ import annotations

import json
from typing import Any

SUMMARY = "Check what works on this machine, and print how to fix the rest."


def add_arguments(parser: Any) -> None:
    """Add the output format."""
    help_text = "print one JSON object: usable (true or false) and findings, as in the table"
    parser.add_argument("--json", action="store_true", help=help_text)


def run(arguments: Any) -> int:
    """Print the findings; the exit code is 0 if training works."""
    from representer.tasks.doctor import as_data, as_table, examine

    findings = examine()
    data = as_data(findings)
    print(json.dumps(data, indent=2) if arguments.json else as_table(findings))
    return 0 if data["usable"] else 1
