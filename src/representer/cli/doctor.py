"""``representer doctor``: what works on this machine, and what to do about the rest."""

from __future__ import annotations

from typing import Any

SUMMARY = "Say what works here, what does not, and how to mend it."


def add_arguments(parser: Any) -> None:
    """Add nothing: the command has no options."""


def run(arguments: Any) -> int:
    """Print the findings; exit code 0 if training works."""
    from representer.tasks.doctor import examine, shown

    findings = examine()
    print(shown(findings))
    return 1 if any(finding.status == "fail" for finding in findings) else 0
