"""Command, hours and machine of the runs behind a page of results, as the page says them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

HEAD = ("page", "command", "hours", "machine and date")
UNKNOWN = "not recorded"
_MADE = re.compile(r"Made by `([^`]+)` with (.+?)\.$", re.MULTILINE)
_SHOWN = re.compile(r"Made by\n\n```sh\n(.+?)\n```\n\nwith (.+?);", re.DOTALL)
_TRAINING = re.compile(
    r"^Training: (\d+) runs in ([\d.]+) hours on (.+), the last on (\S+); (\w+) of them",
    re.MULTILINE,
)
_HOURS = re.compile(r"([\d.]+) hours on a machine that did other work")
_STOPPED = re.compile(r"The command was stopped in its \w+ seed")


def runs_of(folder: Path, names: Sequence[str]) -> list[list[str]]:
    """Return a row of `HEAD` for each page."""
    texts = {name: (folder / f"{name}.md").read_text("utf-8") for name in names}
    return [[f"[{name}]({name}.md)", *run_of(text)] for name, text in texts.items()]


def run_of(text: str) -> list[str]:
    """Return the command, the hours and the machine that a page names.

    Raises:
        ValueError: If it names no command.
    """
    made = _MADE.search(text) or _SHOWN.search(text)
    if made is None:
        raise ValueError(f"a page without its command: {text[:60]!r}")
    command = " ".join(made[1].replace("\\\n", " ").split())
    hours, machine = UNKNOWN, made[2]
    if training := _TRAINING.search(text):
        count, total, processor, date, resumed = training.groups()
        hours = f"{total}, {count} runs, {resumed} resumed"
        machine = f"{processor}, {machine}, {date}"
    elif rough := _HOURS.search(text):
        hours = f"{rough[1]}, beside other work"
    if stopped := _STOPPED.search(text):
        hours += f"; {stopped[0][0].lower()}{stopped[0][1:]}"
    return [f"`{command}`", hours, machine]
