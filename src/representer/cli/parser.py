"""Parse command-line arguments with jsonargparse; messages name the value and the fix."""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
import textwrap
from argparse import Action, HelpFormatter
from argparse import ArgumentError as ParserError
from collections.abc import Collection, Sequence
from dataclasses import MISSING, Field, fields
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

from representer.checks import LARGEST_INTEGER, LIMITS, parse_number
from representer.cli.errors import UsageError, did_you_mean
from representer.errors import ArgumentError, DataError, MissingExtraError
from representer.options.registry import TASKS, task_of_run
from representer.options.task import FIRST, MAIN, Task, group_of
from representer.storage.atomic import parse_yaml, read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from jsonargparse import ArgumentParser, Namespace

    from representer.cli.main import Command


class PlainCommand(NamedTuple):
    """A command that is the same for every task."""

    summary: str
    add_arguments: Callable[[Any], None]
    run: Callable[[Any], int | None]


# Read the YAML file of ``--config``; messages name the file and the key.

_MOST = 2**16  # bytes; what `fit` writes of it into its run may be longer


def read_config_files(
    words: Sequence[str], names: Collection[str], numeric: Collection[str]
) -> dict[str, Any]:
    """Return the options of all configuration files of a command line; the last one wins.

    Raises:
        DataError: If a file cannot be read, is not a mapping, has an unknown key, or a number that
            is not in the plain notation.
    """
    options: dict[str, Any] = {}
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        option, equals, value = word.partition("=")
        if option == "--config" and (equals or following):
            options |= _read(Path(value if equals else following), names, numeric)
    return options


def _read(path: Path, names: Collection[str], numeric: Collection[str]) -> dict[str, Any]:
    try:
        text = read_bytes(path, _MOST, follow_links=True).decode("utf-8")
    except FileNotFoundError:
        raise DataError("there is no such file", file=path, fix="Check the path.") from None
    except UnicodeDecodeError:
        raise DataError("is not UTF-8", file=path, fix="Save it as UTF-8.") from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file=path) from None
    content, written = parse_yaml(text, file=path)
    if not isinstance(content, dict):
        fix = "Write each option as a line KEY: VALUE."
        raise DataError("holds no options", file=path, fix=fix)
    for key in content:
        if str(key) not in names:
            fix = f"{did_you_mean(str(key), sorted(names))}Known keys: {', '.join(sorted(names))}."
            raise DataError(f"{key!r} is not an option", file=path, fix=fix)
    for key in numeric & content.keys():  # to YAML 1_0 is 10 and 1:30 is 90
        if type(content[key]) in (int, float) and parse_number(written[key]) is None:
            fix = "Write it as 90, 0.5 or 1e-3."
            raise DataError(f"{key} is {written[key]!r}", file=path, fix=fix)
    return content


KINDS = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
_NO_KEYS = {"help", "config", "print_config"}
METAVARS = {int: "N", float: "X", bool: "true|false", str: "NAME"}


class _Formatter(HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=100)


def build(name: str, command: Command) -> ArgumentParser:
    """Return the parser of one command."""
    try:
        from jsonargparse import ArgumentParser
    except ImportError as error:
        raise MissingExtraError("the command line", "jsonargparse", "train") from error
    parser = ArgumentParser(
        prog=f"representer {name}", description=command.summary, formatter_class=_Formatter,
        exit_on_error=False, allow_abbrev=False,
    )  # fmt: skip
    command.add_arguments(parser)
    data = [a.metavar or a.dest for a in parser._actions if not a.option_strings]
    parser.usage = " ".join(["representer", name, *map(str, data), "[options]"])
    return parser


def parse(name: str, command: Command, words: Sequence[str]) -> Namespace | None:
    """Parse the words after the command; return None if help was printed."""
    parser = build(name, command)
    if {"-h", "--help", "--help-all"} & set(words):
        print((parser.format_help() if "--help-all" in words else short_help(parser)).rstrip())
        return None
    _check_option_names(parser, name, words)
    _check_numbers(parser, words)
    from_file = {}
    if "--config" in option_strings(parser):
        names = {a.dest for a in parser._actions} - _NO_KEYS
        from_file = read_config_files(words, names, {a.dest for a in _numeric(parser)})
    try:
        arguments = parser.parse_args(list(words))
        _check_texts(parser, arguments, words)
        if defaults := getattr(command, "defaults", None):
            parser.set_defaults(defaults(arguments))  # given options win over them
            arguments = parser.parse_args(list(words))
    except (ParserError, TypeError, ValueError) as error:
        raise UsageError(_explain(parser, name, words, str(error))) from error
    _check_limits(parser, arguments)
    for action in parser._actions:  # an absent positional hides the value of the file
        if not action.option_strings and arguments[action.dest] is None:
            arguments[action.dest] = from_file.get(action.dest)
    return arguments


def add_options(
    parser: ArgumentParser, config: type, positional: Sequence[str] = (),
    skip: Collection[str] = (),
) -> None:  # fmt: skip
    """Add one option per field of a config dataclass; help and choices are its metadata."""
    hints = get_type_hints(config)
    names = {field.name for field in fields(config)} - set(skip)
    first = [name for name in MAIN if name in names][:FIRST]
    groups = {name: parser.add_argument_group(name) for name in GROUPS if first[2:]}
    order = {name: k for k, name in enumerate(first)}
    for field in sorted(fields(config), key=lambda field: order.get(field.name, len(order))):
        title = GROUPS[0] if field.name in first else group_of(field)
        default = None if field.default is MISSING else field.default
        if field.name in skip:
            continue
        if field.name in positional:
            help_text = field.metadata["help"]
            parser.add_argument(
                field.name, nargs="?", type=hints[field.name], help=help_text, metavar="DATA"
            )
        else:
            _add_option(groups.get(title, parser), field, hints[field.name], default)


GROUPS = ("most used options", "data", "model", "training", "output")
SHORT = 25  # options up to which the help describes each of them


def short_help(parser: ArgumentParser) -> str:
    """Return the help with the most used options described, and the names of the others."""
    groups = {str(g.title): g._group_actions for g in parser._action_groups if g._group_actions}
    if len(option_strings(parser)) <= SHORT or GROUPS[0] not in groups:
        return parser.format_help()
    formatter = parser._get_formatter()
    formatter.add_usage(parser.usage, [], [])
    formatter.add_text(parser.description)
    formatter.start_section(GROUPS[0])
    formatter.add_arguments([*groups.get("positional arguments", ()), *groups[GROUPS[0]]])
    formatter.end_section()
    lines = [formatter.format_help(), "other options (described by --help-all):"]
    for title, actions in groups.items():
        if title not in ("positional arguments", GROUPS[0]):
            names = " ".join(a.option_strings[-1] for a in actions if a.option_strings)
            start = f"  {(title if title in GROUPS else 'other') + ':':<10}"
            lines.append(textwrap.fill(names, 98, initial_indent=start, break_on_hyphens=False,
                                       subsequent_indent=" " * 12))  # fmt: skip
    return "\n".join(lines)


def add_number(
    parser: ArgumentParser, option: str, default: int, help_text: str, *short: str
) -> None:
    """Add an option that takes an integer, maybe with a short name."""
    help_text = f"{help_text} (default: {default})"
    parser.add_argument(*short, option, type=int, default=default, help=help_text, metavar="N")


def _add_option(parser: Any, field: Field[Any], hint: Any, default: Any) -> None:
    option = "--" + field.name.replace("_", "-")
    help_text = field.metadata["help"]
    if hint is bool and default is False:
        parser.add_argument(option, action="store_true", help=help_text)
        return
    help_text += "" if default is None else f" (default: {str(default).lower()})"
    if choices := field.metadata.get("choices"):
        parser.add_argument(option, type=str, choices=choices, default=default, help=help_text)
        return
    type_ = next(k for k in (get_args(hint) or (hint,)) if k in METAVARS)
    metavar = field.metadata.get("metavar") or METAVARS[type_]
    parser.add_argument(option, type=hint, default=default, help=help_text, metavar=metavar)


def shown_names(name: str, command: Command) -> dict[str, str]:
    """Return how each argument of a command is written: ``--batch-size``, or ``DATA``."""
    actions = build(name, command)._actions
    return {action.dest: _shown(action) for action in actions}


def option_strings(parser: ArgumentParser) -> list[str]:
    """Return every option of a parser, as typed."""
    return [o for action in parser._actions for o in action.option_strings]


def _check_option_names(parser: ArgumentParser, name: str, words: Sequence[str]) -> None:
    strings = option_strings(parser)
    for word in words:
        if word == "--":
            return
        option = word.partition("=")[0]
        if option.startswith("--") and option not in strings:
            hint = did_you_mean(option, [o for o in strings if o.startswith("--")])
            raise UsageError(
                f"{option} is not an option of `representer {name}`. {hint}"
                f"All of them: representer {name} --help-all"
            )


def _check_numbers(parser: ArgumentParser, words: Sequence[str]) -> None:
    """Refuse what YAML reads as a number although it is not in the plain notation.

    To YAML 1_0 is 10, 1:30 is 90, and digits of other scripts are digits.
    """
    numeric = {o: a for a in _numeric(parser) for o in a.option_strings}
    for word, following in zip_longest(words, words[1:]):
        if word == "--":
            return
        option, equals, text = word.partition("=")
        value = text if equals else following
        if option in numeric and value not in (None, "null") and parse_number(value) is None:
            raise UsageError(f"{option} is {value!r}; expected {_expected(numeric[option])}.")


def _numeric(parser: ArgumentParser) -> list[Action]:
    """Return the options that take a number."""
    return [a for a in parser._actions if {int, float} & set(_kinds(a)) and a.option_strings]


def _check_texts(parser: ArgumentParser, arguments: Namespace, words: Sequence[str]) -> None:
    """Refuse an empty text, as of an unset shell variable, but for a prompt."""
    typed = {word.removesuffix("=") for word, value in pairwise([*words, "-"])
             if not value or word.endswith("=")} - {"--prompt"}  # fmt: skip
    for action in parser._actions:
        is_typed = action.default != "" or not typed.isdisjoint(action.option_strings)
        if arguments.get(action.dest) == "" and is_typed:
            raise UsageError(f"{_shown(action)} is ''; expected {_expected(action)}.")


def _check_limits(parser: ArgumentParser, arguments: Namespace) -> None:
    """Refuse numbers with which memory, threads or time run out before anything is computed."""
    for action in parser._actions:
        value, limit = arguments.get(action.dest), LIMITS.get(action.dest, LARGEST_INTEGER)
        least = 0 if action.dest == "threads" else -LARGEST_INTEGER
        if type(value) is int and not least <= value <= limit:
            expected = f"at most {limit:,}" if value > limit else f"at least {least:,}"
            raise UsageError(f"{_shown(action)} is {value}; expected {expected}.")


def _explain(parser: ArgumentParser, name: str, words: Sequence[str], message: str) -> str:
    """Rephrase an error message of jsonargparse."""
    if match := re.match(r'Parser key "(\w+)":', message):
        return _explain_value(parser, match[1], words, message)
    if match := re.match(r"argument (\S+?)(?:/\S+)?: expected one argument", message):
        return f"{match[1]} has no value; expected {_expected(_action(parser, match[1]))}."
    if match := re.match(r"argument (\S+?): invalid choice: (.+?) \(choose", message):
        action = _action(parser, match[1])
        hint = did_you_mean(match[2].strip("'"), [str(c) for c in action.choices or ()])
        return f"{match[1]} is {match[2]}; expected {_expected(action)}. {hint}"
    if match := re.match(r"unrecognized arguments: (.+)", message):
        return f"{match[1]!r} was not expected here. Usage: representer {name} --help"
    return f"{message.rstrip('.')}. Usage: representer {name} --help"


def _explain_value(parser: ArgumentParser, key: str, words: Sequence[str], message: str) -> str:
    action = _action(parser, key)
    shown = next(iter(action.option_strings), key) if action else key
    got = re.search(r"(?:Got value|Given value): (.*)\s*$", message)
    value = repr(got[1]) if got else "of the wrong kind"
    is_typed = any(w.partition("=")[0] == shown for w in words)
    where = "" if is_typed or "--config" not in words else " in the configuration file"
    return f"{shown}{where} is {value}; expected {_expected(action)}."


def _action(parser: ArgumentParser, name: str) -> Action:
    for action in parser._actions:
        if name in (action.dest, *action.option_strings):
            return action
    return Action([], name)


def _shown(action: Action) -> str:
    """Return an argument as it is written in the help."""
    return next(iter(action.option_strings[-1:]), str(action.metavar or action.dest))


def _expected(action: Action) -> str:
    if action.choices:
        return "one of " + ", ".join(map(str, action.choices))
    words = [KINDS[name] for name in _kinds(action) if name in KINDS]
    return " or ".join(words) or "a value"


def _kinds(action: Action) -> list[Any]:
    """Return the types that an option takes, but None."""
    hint: Any = getattr(action, "_typehint", None) or action.type
    return [k for k in (get_args(hint) or (hint,)) if k is not type(None)]


# Options of the commands that use a run, which depend on its task.

WITH_STRINGS = ("predict", "explain")  # the commands with --input


def add_run_and_options(parser: Any, command: str) -> None:
    """Add the run, the data, and the options that a task has for the command."""
    nouns = [task.noun for task in TASKS.values() if command in task.options]
    described = f"{', '.join(nouns[:-1])} or {nouns[-1]}: a file or a folder; -: standard input"
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    if command in WITH_STRINGS:
        parser.add_argument("data", nargs="?", type=str | None, help=described, metavar="DATA")
        parser.add_argument(
            "--input", action="append", type=str, metavar="TEXT",
            help="a single text, instead of DATA; may be repeated",
        )  # fmt: skip
    else:
        parser.add_argument("data", type=str, help=described, metavar="DATA")
    parser.add_argument(
        "--format", type=str | None, metavar="SUFFIX",
        help="of standard input: as the suffix of a file, such as csv, jsonl, npz or parquet "
        "(default: by its content)",
    )  # fmt: skip
    add_device(parser)
    for options in _option_kinds(command):
        add_options(parser, options, skip={action.dest for action in parser._actions})


def add_device(parser: Any) -> None:
    """Add the device of the network."""
    parser.add_argument(
        "--device", type=str, default="auto", metavar="DEVICE",
        help="device of the network: cpu, cuda, cuda:1, mps; auto: CUDA if there is one "
        "(default: auto)",
    )  # fmt: skip


def path_of(arguments: Any) -> str:
    """Return the path of the data; of ``-``, a temporary file with what standard input holds."""
    suffix = (arguments.format or "").lstrip(".")
    if arguments.data != "-":
        if suffix:
            raise ArgumentError("format", suffix, "nothing unless DATA is -")
        return arguments.data
    folder = tempfile.mkdtemp(prefix="representer-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, f"stdin.{suffix}" if suffix.replace(".", "").isalnum() else "stdin")
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return str(path)


def data_of(task: Task, arguments: Any) -> str | list[str]:
    """Return the path of the data, or the strings of ``--input``."""
    if arguments.input is None:
        if arguments.data is None:
            hint = "For a single text: --input TEXT" if task.takes_strings else ""
            raise ArgumentError("data", None, "a file or a folder", hint=hint)
        return path_of(arguments)
    if not task.takes_strings:
        expected = f"a file or a folder as DATA, since the model is one of {task.noun}"
        raise ArgumentError("input", arguments.input[0], expected)
    if arguments.data is not None:
        raise ArgumentError("input", arguments.input[0], "nothing beside DATA")
    return arguments.input


def task_and_options(arguments: Any, command: str) -> tuple[Task, list[Any]]:
    """Return the task of the run, and its options.

    Raises:
        DataError: If there is no such run.
    """
    task = task_of_run(arguments.run, command)
    declared = task.options[command]
    names = {field.name for options in declared for field in fields(options)}
    for field in (field for options in _option_kinds(command) for field in fields(options)):
        value = arguments[field.name]
        if field.name not in names and value != field.default:
            expected = f"nothing, since the model is one of {task.noun}"
            raise ArgumentError(field.name, value, expected)
    return task, [
        options(**{f.name: arguments[f.name] for f in fields(options)}) for options in declared
    ]


def _option_kinds(command: str) -> list[type[Any]]:
    kinds = (options for task in TASKS.values() for options in task.options.get(command, ()))
    return list(dict.fromkeys(kinds))
