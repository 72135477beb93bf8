"""Command lines with a wrong word: missing, unknown, of a wrong type, out of range, empty, long."""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch

from faults import Case, Suite, emptied, some, temporary_folder
from faults.processes import forked
from faults.runs import make_runs, write_data
from representer.cli.main import COMMANDS, entry_point, load
from representer.cli.parser import build, option_strings
from representer.errors import printable

SECONDS = 30
LONGEST = 2100  # characters of a message, however long the word is
TIMES = 2  # wrong values of each option
LONG = "λ" * 100_000
NUMBERS = {
    "empty": "", "a word": "x", "an underscore": "1_0", "other digits": "٣", "a text": LONG,
    "hexadecimal": "0x10", "digits": "9" * 5000, "no number": "nan", "infinite": "-inf",
}  # fmt: skip
TEXTS = {
    "empty": "", "other letters": "größer\u202eλ", "a text": LONG, "controls": "\x1b[2J\n",
    "a path": "../" * 2000 + "x", "a surrogate": "\udcff",
}  # fmt: skip
VALUES = {"empty": "", "other letters": "λ", "a text": LONG, "a list": "[1, 2]"}
FREE = (  # any text may do
    "--out", "--record", "--output", "--prompt", "--input", "--separator", "-o", "-n", "-p",
)  # fmt: skip
UNUSED = ("--label", "--target", "--labels", "--cutoffs", "--data")  # not by every file or model
UNCHECKED = ("--help", "--print_config", "--config", "-h")
RUNS = {"generate": "language", "suggest": "molecule"}  # of commands that do not read every run
SHORT = {
    "--epochs": "1", "--hidden-size": "4", "--threads": "1", "--jobs": "1",
    "--baselines": "none", "--splits": "2", "--budget": "0.01",
}  # fmt: skip

_PLACE: list[Path] = []
_DATA: dict[str, str] = {}


def setup() -> None:
    """Write small data of each task, and train the runs that commands read."""
    if _PLACE:
        return
    torch.set_num_threads(1)
    _PLACE.append(temporary_folder())
    for task, run, data in make_runs(_PLACE[0] / "runs", ("text", "language", "molecule")):
        _DATA.setdefault(f"run {task}", str(run))
        _DATA[task] = str(data)
    for task in ("graph", "signal", "series"):
        _DATA[task] = str(write_data(_PLACE[0], task))


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield wrong words for every option and argument of every command."""
    for name in COMMANDS:
        wrong = [("an unknown option", ["--no-such-option"])]
        if name not in ("doctor", "cells", "demo"):  # which need no argument
            wrong.append(("no argument", []))
        for action in build(name, load(name))._actions:
            if not set(action.option_strings) & set(UNCHECKED):
                wrong += _wrong(action, random.Random(f"{seed} {name} {action.dest}"))
        wrong.append(("a further word", ["further-word"]))
        for what, words in some(wrong, share, f"{seed} {name}"):
            yield Case(name, f"{name}: {what}", partial(_attempt, name, words))
    for number, words in enumerate((["fti"], ["fit", "txet"], [""], [LONG], ["-x"], ["fit", ""])):
        yield Case("no command", f"{number}: {words[-1][:10]!r}", partial(_attempt, "", words))


def _wrong(action: argparse.Action, draw: random.Random) -> list[tuple[str, list[str]]]:
    """Return wrong uses of one argument: what is wrong, and the words."""
    if not action.option_strings:
        kinds = draw.sample(sorted(TEXTS), TIMES)
        return [(f"{action.dest}, {kind}", [f"<{action.dest}>", TEXTS[kind]]) for kind in kinds]
    option = action.option_strings[-1]
    if action.nargs == 0:
        return [(f"{option} with a value", [f"{option}=x"])]
    kind = str(getattr(action, "_typehint", None) or action.type)
    is_text = "str" in kind and not action.choices
    known = NUMBERS if "int" in kind or "float" in kind else TEXTS if is_text else VALUES
    found = [
        (f"{option}, {name}", [f"{option}={known[name]}"])
        for name in draw.sample(sorted(known), TIMES)
    ]
    return [*found, (f"{option} without a value", [option])]


def _attempt(name: str, words: Sequence[str]) -> None:
    line, place = _line(name, words), emptied(_PLACE[0] / "place")

    def call() -> int:
        os.chdir(place)
        return entry_point(line)

    ended = forked(call, _PLACE[0], seconds=SECONDS)
    shown = f"{ended.err.strip()[-400:]!r} after {[word[:60] for word in line]}"
    is_free = bool(words) and words[0].partition("=")[0] in (*FREE, *UNUSED)
    if is_free and ended.code == 0:
        return
    ended.require(*((2, 73, 74) if is_free else (2,)), about=f"{shown}: ", has_notices=True)
    (error,) = [text for text in ended.err.splitlines() if text.startswith("error:")]
    assert "Traceback" not in ended.err, shown
    assert len(error) <= LONGEST, f"{len(error)} characters: {error[:200]!r}"
    if words:
        assert any(one in error for one in _names(name, words)), f"nothing is named: {shown}"


def _line(name: str, words: Sequence[str]) -> list[str]:
    """Return the words of a command with data of its task, and the wrong words."""
    command, _, task = name.partition(" ")
    if not name or not words:
        return [*name.split(), *words]
    of_run = RUNS.get(command, "text")
    data = _DATA.get(task or of_run, _DATA["text"])  # a new task: any table
    run = _DATA[f"run {of_run}"]
    given = {"data": data, "first": data, "second": data, "run": run, "name": "kbrn-xor"}
    is_argument = words[0].startswith("<")
    if is_argument:
        given[words[0].strip("<>")] = words[1]
    parser = build(name, load(name))
    known = option_strings(parser) if command in ("fit", "compare", "reproduce") else []
    short = SHORT | ({"--target": "size"} if task == "molecule" else {})
    usual = [f"{option}={value}" for option, value in short.items() if option in known]
    usual += ["--smoke"] if command == "reproduce" else []
    arguments = [given.get(a.dest, "") for a in parser._actions if not a.option_strings]
    return [*name.split(), *arguments, *usual, *(() if is_argument else words)]


def _names(name: str, words: Sequence[str]) -> list[str]:
    """Return the spellings of a wrong word, of which a message must have one."""
    word, _, value = words[0].partition("=")
    if word.startswith("<"):
        value = words[1]
    found = [word[:20], *((printable(value.strip()[:20]), repr(value[:20])[1:-1]) if value else ())]
    if not name:  # the last word is the wrong one
        found.append(f" {words[-1][:20]!r}")
    if name:
        for action in build(name, load(name))._actions:
            if action.dest == word.strip("<>") or word in action.option_strings:
                found += [action.dest, str(action.metavar), *action.option_strings]
    return [one for one in found if one.strip()] or ["''"]


SUITES = {
    "command_words": Suite(
        "A command line had a wrong word: exit code 2 and one line that names it", cases, setup
    )
}
