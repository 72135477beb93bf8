"""The commands and options are a promise: they change only together with options.txt."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from representer.cli.main import COMMANDS, load
from representer.cli.parser import build

FROZEN = Path(__file__).with_name("options.txt")
TABLE = Path(__file__).parents[2] / "docs/options.md"
# SHA-256 of the options of 0.1.0, a line each, sorted, but for those of the removed `bench`
OF_0_1_0 = "78b696be330b6d9fd3fbd41bcf27b391509a31f148b746cb01fe417045821261"


def surface() -> str:
    """Return every command, its arguments and its options with their defaults."""
    lines = []
    for name in COMMANDS:
        lines.append(name)
        for action in build(name, load(name))._actions:
            shown = ", ".join(action.option_strings) or action.dest
            is_from_environment = action.option_strings == ["--data"]
            default = "(environment)" if is_from_environment else repr(action.default)
            lines.append(f"  {shown} = {default}")
    return "\n".join(lines) + "\n"


def test_commands_and_options_are_the_frozen_ones():
    assert surface() == FROZEN.read_text(encoding="utf-8"), (
        "A changed option breaks users' scripts. If it is meant, write surface() to options.txt "
        "and say so in CHANGELOG.md."
    )


def frozen() -> set[str]:
    """Return the lines of options.txt, each with its command in front."""
    result, command = set(), ""
    for line in FROZEN.read_text(encoding="utf-8").splitlines():
        command = line if not line.startswith(" ") else command
        result.add(f"{command}  {line.strip()}")
    return result


def changes() -> tuple[set[str], set[str]]:
    """Return the lines that the table says were there in 0.1.0, and that it says are new."""
    before, now = set(), set()
    for row in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if not row.startswith("| ") or cells[0] == "command":
            continue
        for command in cells[0].split(", "):
            if cells[1] == "all":
                now |= {line for line in frozen() if line.startswith(f"{command}  ")}
                continue
            for option in cells[1].split(", "):
                for default, lines in ((cells[2], before), (cells[3], now)):
                    if default != "–":
                        lines.add(f"{command}  {option.strip('`')} = {default.strip('`')}")
    return before, now


def test_the_table_has_every_change_of_options_since_0_1_0():
    before, now = changes()
    assert sorted(now - frozen()) == []
    assert sorted(before & frozen()) == []
    listed = "\n".join(sorted(frozen() - now | before))
    assert hashlib.sha256(listed.encode()).hexdigest() == OF_0_1_0, (
        "An option or its default was added, removed or changed without a row in options.md."
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_text(name):
    for action in build(name, load(name))._actions:
        assert action.help, action.dest


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_its_help(run, name):
    outcome = run(*name.split(), "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"usage: representer {name}")
