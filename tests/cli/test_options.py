"""The commands and options are a promise: they change only together with options.txt."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from representer.cli.main import COMMANDS, load
from representer.cli.parser import build

FROZEN = Path(__file__).with_name("options.txt")
BEFORE = FROZEN.with_name("options_0_1_0.txt")
ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs/options.md"
GENERATED = runpy.run_path(str(ROOT / "tools/generated.py"))


def test_commands_and_options_are_the_frozen_ones():
    assert GENERATED["surface"]() == FROZEN.read_text(encoding="utf-8"), (
        "A changed option breaks users' scripts. If it is meant, say so in CHANGELOG.md and "
        "docs/options.md, and run `make generated`."
    )


@pytest.mark.parametrize(("path", "function"), [("NAMES", "names"), ("REFERENCE", "reference")])
def test_the_files_that_follow_from_the_tasks_are_current(path: str, function: str):
    text = GENERATED[path].read_text(encoding="utf-8")
    assert " ".join(GENERATED[function](text).split()) == " ".join(text.split())


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


def test_the_table_has_every_change_of_the_options_of_0_1_0():
    before, now = changes()
    assert sorted(now - frozen()) == []
    of_0_1_0 = set(BEFORE.read_text(encoding="utf-8").splitlines())
    assert sorted(of_0_1_0 - frozen()) == sorted(before), "a row of options.md is missing"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_text(name):
    for action in build(name, load(name))._actions:
        assert action.help, action.dest


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_its_help(run, name):
    outcome = run(*name.split(), "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"usage: representer {name}")
