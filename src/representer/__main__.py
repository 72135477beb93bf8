"""``python -m representer`` is the command ``representer``."""

from representer.cli import entry_point

raise SystemExit(entry_point())
