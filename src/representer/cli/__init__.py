"""The command line. Commands only; the logic is in tasks.

Importing every command takes longer than printing their names, so their overview is a file, which
``entry_point`` prints unless an installed package adds tasks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

OVERVIEW = Path(__file__).with_name("overview.txt")  # tests compare it with the commands
HELP = (["-h"], ["--help"], ["help"])


def entry_point(argv: Sequence[str] | None = None) -> int:
    """Run one command line, and return its exit code; see ``main.entry_point``."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words in HELP and sys.stdout is not None and not _may_have_more_tasks():
        from representer.cli.errors import guarded

        text = OVERVIEW.read_text(encoding="utf-8").rstrip("\n")
        return guarded(lambda: print(text) or 0, is_debug=False)
    from representer.cli.main import entry_point

    return entry_point(argv)


def _may_have_more_tasks() -> bool:
    """Return True if a package announces tasks; reading it with importlib.metadata takes 40 ms."""
    files = (file for folder in sys.path for file in Path(folder).glob("*.*-info/entry_points.txt"))
    return any(b"[representer.tasks]" in file.read_bytes() for file in files)
