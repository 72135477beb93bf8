"""The command ``representer``: find the command, parse its options, run it.

Nothing here imports torch, so ``--help`` is fast.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol

from representer import __version__
from representer.cli.errors import UsageError, did_you_mean, guarded, in_option_words
from representer.errors import QUIET, ArgumentError, RepresenterError, say
from representer.machine import wait_asleep, write_utf8
from representer.options.registry import TASKS

COMMANDS = {
    **{f"fit {name}": "representer.cli.train" for name in TASKS},
    **{
        f"compare {name}": "representer.cli.train"
        for name, task in TASKS.items()
        if "comparison" in task.functions
    },
    **{
        f"drift {name}": "representer.cli.use"
        for name, task in TASKS.items()
        if "drift" in task.options
    },
    "evaluate": "representer.cli.use",
    "predict": "representer.cli.use",
    "generate": "representer.cli.use",
    "explain": "representer.cli.use",
    "suggest": "representer.cli.use",
    "report": "representer.cli.use",
    "export": "representer.cli.share",
    "serve": "representer.cli.share",
    "demo": "representer.cli.share",
    "cells": "representer.cli.use",
    "doctor": "representer.cli.use",
    "reproduce": "representer.cli.train",
}
USUAL = {"nproc": 1, "nnodes": 1, "rdzv_endpoint": None, "max_restarts": 0}  # of --launch
START = """\
representer trains a model on your data, tests it beside baselines, and explains its predictions.

  representer fit reviews.csv              train: texts, molecules, graphs, series, DNA
  representer demo                         try it without data, in the browser
  representer compare reviews.csv          kernel, network, both, and baselines
  representer explain RUN --input "..."    which words, atoms or steps a prediction comes from

All commands: representer --help"""
COMPLETION = """\
# bash: put this line into ~/.bashrc
complete -o default -C "representer completion" representer
# zsh: put this line before it, into ~/.zshrc
autoload -U bashcompinit && bashcompinit"""
WITHOUT_TASK = ("fit", "compare", "drift")  # their task may be that of the data
_HELP = "-h", "--help"
LOADS = {name.split()[0] for name in COMMANDS} - {"cells", "doctor"}  # torch, for seconds


class Command(Protocol):
    """The interface of a command; ``defaults(arguments)`` is optional."""

    summary: str

    def add_arguments(self, parser: Any) -> None:
        """Add the command's arguments to a jsonargparse parser."""
        ...

    def run(self, arguments: Any) -> int | None:
        """Run the command; None is exit code 0."""
        ...


# Python's own thresholds let imports and the rows of a table pass through the collector many times,
# a tenth of the time of a command that predicts.
COLLECTED = 20_000, 20, 20


def entry_point(argv: Sequence[str] | None = None) -> int:
    """Run one command line.

    Return the exit code: 0, or that of the error.
    """
    wait_asleep()
    words = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell; the next file must not take its place
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    is_debug, is_quiet = "--debug" in words, "--quiet" in words
    flags = ("--debug", "--quiet")
    write_utf8()
    written, thresholds = warnings.formatwarning, gc.get_threshold()
    gc.set_threshold(*COLLECTED)
    if not is_debug:  # without the place in the code and the line that stands there
        warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    token = QUIET.set(is_quiet)
    try:
        return guarded(lambda: _run([w for w in words if w not in flags]), is_debug=is_debug)
    finally:
        QUIET.reset(token)
        warnings.formatwarning = written
        gc.set_threshold(*thresholds)


def load(name: str) -> Command:
    """Import a command."""
    module = importlib.import_module(COMMANDS[name])
    group, _, task = name.partition(" ")
    return module.COMMANDS_OF_TASKS[group](TASKS[task]) if task else module.COMMANDS[name]


def _run(words: list[str]) -> int:
    for word in words:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UsageError(f"{word!r} is not valid UTF-8. Rename the file or folder.")
    if not words:
        print(START)
        return 0
    if words[0] in ("-h", "--help", "help"):
        print(_overview(COMMANDS))
        return 0
    if words[0] == "completion":
        print("\n".join(completions()) if "COMP_LINE" in os.environ else COMPLETION)
        return 0
    if words[0] == "--version":
        print(f"representer {__version__}")
        return 0
    is_read = sys.stderr.isatty() and not QUIET.get()
    if is_read and words[0] in LOADS and not {"-h", "--help", "--help-all"} & {*words}:
        print(
            "loading ...", end="\r", file=sys.stderr, flush=True
        )  # the next line is written over it
    name, rest = _find_command(words)
    if name is None:
        print(_overview([c for c in COMMANDS if c.split()[0] == words[0]]))
        return 0
    from representer.cli.parser import parse, shown_names

    command = load(name)
    arguments = parse(name, command, rest)
    if arguments is None:
        return 0
    try:
        return command.run(arguments) or 0
    except RepresenterError as error:
        error.args = (in_option_words(str(error), shown_names(name, command)),)
        raise


def _find_command(words: list[str]) -> tuple[str | None, list[str]]:
    """Split the words into the command's name and its arguments; None for the help of a group."""
    is_guessed = words[0] in WITHOUT_TASK and words[1:] and words[1] not in (*_HELP, *TASKS)
    has_data = any(Path(word).exists() or Path(word).suffix for word in words[1:])
    if is_guessed and (words[0] != "fit" or has_data):  # `fit texts` is a task with a mistake
        words = [words[0], *with_task(words[0], words[1:])]
        say(f"the task is {words[1]}: representer {' '.join(words[:2])}")
    for length in (2, 1):
        if " ".join(words[:length]) in COMMANDS:
            return " ".join(words[:length]), words[length:]
    kinds = [c.split()[1] for c in COMMANDS if c.split()[0] == words[0] and " " in c]
    if not kinds:
        hint = did_you_mean(words[0], sorted({c.split()[0] for c in COMMANDS}))
        raise UsageError(f"{words[0]!r} is not a command. {hint}All of them: representer --help")
    if len(words) == 1:
        raise UsageError(
            f"{words[0]!r} needs a task; expected one of: {', '.join(kinds)}. "
            f"Try: representer {words[0]} {kinds[0]} --help"
        )
    if words[1] in _HELP:
        return None, []
    hint = did_you_mean(words[1], kinds)
    raise UsageError(
        f"{words[1]!r} is not a command of `representer {words[0]}`; expected one of: "
        f"{', '.join(kinds)}. {hint}"
    )


def _overview(names: Sequence[str] | dict[str, str]) -> str:
    lines = ["usage: representer COMMAND [options]", "", "commands:"]
    lines += [f"  {name:<12} {load(name).summary}" for name in names]
    lines += ["", "Options of one command:  representer COMMAND --help"]
    lines += ["With the whole traceback of an error:  --debug"]
    lines += ["Without notes and progress:             --quiet"]
    lines += ["Completion in the shell:                representer completion"]
    return "\n".join(lines)


def completions() -> list[str]:
    """Return the words that may follow in a shell, which names the line and what is typed."""
    from representer.cli.parser import build, option_strings

    typed = sys.argv[-2] if len(sys.argv) > 3 else ""  # bash passes command, word, word before
    words = [word for word in os.environ["COMP_LINE"].split()[1:] if word != typed]
    depth, every = len(words), [command.split() for command in (*COMMANDS, "completion")]
    names = dict.fromkeys(c[depth] for c in every if c[:depth] == words and len(c) > depth)
    command = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in COMMANDS), "")
    options = option_strings(build(command, load(command))) if command and typed else []
    return [word for word in (*names, *options) if word.startswith(typed)]


# The task of ``fit``, ``compare`` and ``drift`` where the words do not name it.

_OWN = {
    "fit": {"config", "help", "help_all", "launch", *USUAL},
    "compare": {"splits", "cells", "jobs", "out", "config", "json"},
    "drift": {"permutations", "limit", "seed"},
}


def with_task(command: str, words: Sequence[str]) -> list[str]:
    """Return the words after ``fit``, ``compare`` or ``drift`` with the task in front.

    The task is the first word, that of ``--kind``, the only one that has all given options, or
    that of the data.
    """
    if words[0] in TASKS:
        return list(words)
    for position, word in enumerate(words):
        option, _, value = word.partition("=")
        value = value or " ".join(words[position + 1 : position + 2])
        if option == "--kind" and value in TASKS:
            return [value, *words[:position], *words[position + (1 if "=" in word else 2) :]]
    typed = {word.partition("=")[0][2:].replace("-", "_") for word in words if word[:2] == "--"}
    options = _options(command)
    typed &= set[str]().union(*options.values())  # one that no task has is refused with its task
    fitting = [name for name, names in options.items() if typed <= names]
    if not fitting:
        listed = ", ".join(options)
        raise UsageError(
            f"no task has all of these options. Name the task, one of {listed}: "
            f"representer {command} TASK {'FIRST SECOND' if command == 'drift' else 'DATA'} "
            f"[options]"
        )
    data = [word for word in words if word[:1] != "-" and Path(word).exists()]
    task = task_of_data(Path((data or words)[0]))
    if task not in (*options, "language") and len(fitting) > 1:  # lines may be texts
        raise UsageError(
            f"the task of {(data or words)[0]} seems to be {task}, which {command} does not have. "
            f"Name another one of {', '.join(options)}: representer {command} {fitting[0]} ..."
        )
    return [task if task in fitting else fitting[0], *words]


def _options(command: str) -> dict[str, set[str]]:
    """Return the names of the command's options, by task."""
    kinds = {
        name: (task.config,) if command in ("fit", "compare") else task.options.get(command, ())
        for name, task in TASKS.items()
    }
    return {
        name: _OWN[command].union(
            *({field.name for field in fields(options)} for options in declared)
        )
        for name, declared in kinds.items()
        if declared
    }


def task_of_data(path: Path) -> str:
    """Return the task of a file or folder, by its name and its first rows; "text" if in doubt."""
    from representer.data.graphs.reading import is_bracketed, tu_folders
    from representer.data.molecules.table import are_smiles
    from representer.data.sequences import ROWS, are_sequences
    from representer.data.series import are_series
    from representer.data.tables import files as formats
    from representer.data.tables.reading import kind_of, named_table, read_blocks, table_format

    if path.is_dir():
        if tu_folders(path) or named_table(path, "nodes"):
            return "graph"
        suffixes = {formats.TASKS.get(formats.format_of(file) or "") for file in path.iterdir()}
        # no part of a running text is a table; samples of recordings are, and are to be listed
        is_signal = "signal" in suffixes or (suffixes and all(map(kind_of, path.iterdir())))
        return "signal" if is_signal or named_table(path, "recordings") else "language"
    if task := formats.TASKS.get(formats.format_of(path) or ""):
        return task
    try:
        if is_bracketed(path):
            return "graph"
        if table_format(path) == "lines":
            return "language"
        block = next(iter(read_blocks(path, ["smiles"], header=True)))
    except (RepresenterError, OSError):
        return "text"  # its reader says what is wrong
    guess = _of_columns({name.lower() for name in block.columns})
    rows = block.rows[:ROWS]
    if guess != "text" or not rows:
        return guess
    if any(map(are_smiles, zip(*rows, strict=True))):
        return "molecule"
    if are_sequences(block.columns, rows):
        return "sequence"
    return "series" if are_series(block.columns, rows) else guess


def _of_columns(names: set[str]) -> str:
    from representer.data.molecules.table import is_smiles_name
    from representer.data.tables.columns import TEXT_NAMES

    if {"nodes", "edge_index"} & names:
        return "graph"
    if {"file", "subject"} <= names and not names & TEXT_NAMES:
        return "signal"
    return "molecule" if any(map(is_smiles_name, names)) else "text"


# ``--launch torchrun``: several processes, here or on several machines, that train one model.

_IS_WORKER, _RESTARTS = "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"  # set by torchrun


def add_launch(parser: Any) -> None:
    """Add the options of several processes, with torchrun's names."""
    parser.add_argument(
        "--launch", type=str | None, choices=("torchrun",), default=None,
        help="start several processes that train one model; each batch is divided among them",
    )  # fmt: skip
    parser.add_argument(
        "--nproc", type=int, default=1, metavar="N",
        help="of --launch: processes on each machine (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--nnodes", type=int, default=1, metavar="N",
        help="of --launch: machines, each of which is given the same command (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--rdzv-endpoint", type=str | None, default=None, metavar="HOST:PORT",
        help="of --launch: address of the first machine, if there are several",
    )  # fmt: skip
    parser.add_argument(
        "--max-restarts", type=int, default=0, metavar="N",
        help="of --launch: how often all processes are started again, from the last checkpoint, "
        "when one of them fails (default: 0)",
    )  # fmt: skip


def is_restarted() -> bool:
    """Return True in a process that torchrun started again after a failure."""
    return os.environ.get(_RESTARTS, "0") != "0"


def launch(arguments: Any) -> None:
    """Replace this process by torchrun if ``--launch`` is given; return in its processes."""
    if arguments["launch"] is None:
        for name, usual in USUAL.items():
            if arguments[name] != usual:
                raise ArgumentError(name, arguments[name], "nothing without --launch")
        return
    if _IS_WORKER in os.environ:
        return
    for name, least in (("nproc", 1), ("nnodes", 1), ("max_restarts", 0)):
        if arguments[name] < least:
            raise ArgumentError(name, arguments[name], f"{least} or more")
    endpoint = arguments["rdzv_endpoint"]
    if (arguments["nnodes"] > 1) != (endpoint is not None):
        expected = "HOST:PORT of the first machine" if endpoint is None else "nothing on one"
        raise ArgumentError("rdzv_endpoint", endpoint, expected)
    sys.stdout.flush()
    os.execve(sys.executable, command(arguments, sys.argv[1:]), environment(arguments))


def command(arguments: Any, words: list[str]) -> list[str]:
    """Return the command line of torchrun for the words of this command."""
    return [
        sys.executable, "-m", "torch.distributed.run",
        *("--nproc-per-node", str(arguments["nproc"]), "--nnodes", str(arguments["nnodes"])),
        *("--max-restarts", str(arguments["max_restarts"]), "--rdzv-backend", "c10d"),
        *("--rdzv-endpoint", arguments["rdzv_endpoint"] or "127.0.0.1:0"),
        *("-m", "--", "representer", *words),  # words may look like options of torchrun
    ]  # fmt: skip


def environment(arguments: Any) -> dict[str, str]:
    """Return the variables of torchrun and its processes."""
    import torch

    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # a restart must not find old addresses
    if "OMP_NUM_THREADS" not in os.environ:
        variables["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // arguments["nproc"]))
    if arguments["device"] == "cpu" or not torch.cuda.is_available():
        variables["ACCELERATE_USE_CPU"] = "true"
    return os.environ | variables
