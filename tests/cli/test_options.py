"""The commands and options are a promise: they change only together with options.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from representer.cli.main import COMMANDS, load
from representer.cli.parser import build

FROZEN = Path(__file__).with_name("options.txt")


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


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_text(name):
    for action in build(name, load(name))._actions:
        assert action.help, action.dest


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_its_help(run, name):
    outcome = run(*name.split(), "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"usage: representer {name}")
