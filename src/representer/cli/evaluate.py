"""``representer evaluate RUN DATA``: evaluate a trained model on other data."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

from representer.cli.parser import add_options
from representer.errors import ArgumentError
from representer.tasks.language.adaptation import Adaptation
from representer.tasks.molecule.molecule_config import MoleculeReading
from representer.tasks.signal.signal_config import SignalReading
from representer.tasks.text.text_config import ReadOptions

SUMMARY = "Evaluate a trained model on a labeled table, recordings or a text; print JSON."


def add_arguments(parser: Any) -> None:
    """Add the run, the data, how to read them, and how a language model adapts to them."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument("data", type=str, help="labeled table, recordings, or text", metavar="DATA")
    add_options(parser, ReadOptions)
    add_options(parser, MoleculeReading)
    add_options(parser, SignalReading)
    add_options(parser, Adaptation)


def run(arguments: Any) -> None:
    """Print the metrics as one JSON object, on the last line of stdout."""
    options, reading, task = read_options(arguments), read_molecules(arguments), task_of(arguments)
    adaptation = Adaptation(**{name: arguments[name] for name in Adaptation.__dataclass_fields__})
    if task == "language":
        from representer.tasks.language.language_use import evaluate as evaluate_language

        refuse_changed(options, "nothing, since the model is a language model")
        refuse_changed(reading, "nothing, since the model is a language model")
        print(json.dumps(evaluate_language(arguments.run, arguments.data, adaptation)))
        return
    refuse_changed(adaptation, "nothing, since the model is no language model")
    if task == "molecule":
        from representer.tasks.molecule.molecule_use import evaluate as evaluate_molecules

        print(json.dumps(evaluate_molecules(arguments.run, arguments.data, reading, options)))
        return
    if task == "signal":
        from representer.tasks.signal.signal_use import evaluate as evaluate_signals

        print(json.dumps(evaluate_signals(arguments.run, arguments.data, read_signals(arguments))))
        return
    from representer.tasks.text.text_use import evaluate

    print(json.dumps(evaluate(arguments.run, arguments.data, options)))


def task_of(arguments: Any) -> str | None:
    """Return the task of the run, after refusing options that it does not have.

    Raises:
        DataError: If there is no such run.
        ArgumentError: If an option is given that the task does not have.
    """
    from representer.storage.run_files import task_of as read_task

    task = read_task(arguments.run)
    options, usual = read_options(arguments), ReadOptions()
    if task == "signal":
        refuse_changed(options, "nothing, since the model is one of signals")
        refuse_changed(read_molecules(arguments), "nothing, since the model is one of signals")
        return task
    refuse_changed(read_signals(arguments), "nothing, since the model is not one of signals")
    if task == "molecule":  # a table of molecules has names in its first row, and delimiters
        kept = replace(options, delimiter=usual.delimiter, encoding=usual.encoding)
        refuse_changed(kept, "nothing, since the model is one of molecules")
    elif task != "language":
        refuse_changed(read_molecules(arguments), "nothing, since the model is one of texts")
    return task


def read_options(arguments: Any) -> ReadOptions:
    """Return the options for reading tables."""
    return ReadOptions(**{name: arguments[name] for name in ReadOptions.__dataclass_fields__})


def read_molecules(arguments: Any) -> MoleculeReading:
    """Return the options for the columns of molecules."""
    return MoleculeReading(
        **{field.name: arguments[field.name] for field in fields(MoleculeReading)}
    )


def read_signals(arguments: Any) -> SignalReading:
    """Return the options for the windows of recordings; a command may lack them."""
    return SignalReading(
        **{field.name: arguments.get(field.name) for field in fields(SignalReading)}
    )


def refuse_changed(
    options: ReadOptions | MoleculeReading | SignalReading | Adaptation, expected: str
) -> None:
    """Refuse options that the model of a run does not have.

    Args:
        options: Those that must have their defaults.
        expected: The end of the message.

    Raises:
        ArgumentError: If one has another value.
    """
    for name, value in vars(options).items():
        if value != getattr(type(options)(), name):
            raise ArgumentError(name, value, expected)
