"""The closing lines of the tests with a browser."""

from __future__ import annotations

from typing import Any

from browser import FOUND


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a line for each page that was looked at."""
    if FOUND:
        terminalreporter.section("pages in Chromium")
        terminalreporter.write_line("\n".join(FOUND))
