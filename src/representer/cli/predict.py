"""``representer predict RUN DATA -o OUT.csv``: predict the rows of a table, or recordings."""

from __future__ import annotations

from typing import Any

from representer.cli.evaluate import read_molecules, read_options, read_signals, task_of
from representer.cli.parser import add_options
from representer.errors import ArgumentError
from representer.tasks.molecule.molecule_config import MoleculeReading
from representer.tasks.signal.signal_config import SignalReading
from representer.tasks.text.text_config import ReadOptions

SUMMARY = "Predict the texts or molecules of a table, or recordings, with a trained model."


def add_arguments(parser: Any) -> None:
    """Add the run, the data, where to write, and how to read."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument(
        "data", type=str, help="table with texts or molecules, or recordings", metavar="DATA"
    )
    parser.add_argument(
        "-o", "--output", type=str | None, help="CSV file to write; default: stdout",
        metavar="OUT.csv",
    )  # fmt: skip
    add_options(parser, ReadOptions)
    add_options(parser, MoleculeReading)
    add_options(parser, SignalReading)
    parser.add_argument(
        "--stream", action="store_true",
        help="process recordings step by step; write a row for each step",
    )  # fmt: skip


def run(arguments: Any) -> None:
    """Write the rows of the input, in order, each with a prediction and its confidence."""
    where = (arguments.run, arguments.data, arguments.output)
    task = task_of(arguments)
    if task == "signal":
        from representer.tasks.signal.signal_use import predict as predict_signals

        predict_signals(*where, read_signals(arguments), stream=arguments.stream)
        return
    if arguments.stream:
        raise ArgumentError("stream", True, "no such option, since the model is not a signal model")
    if task == "molecule":
        from representer.tasks.molecule.molecule_use import predict as predict_molecules

        predict_molecules(*where, read_molecules(arguments), read_options(arguments))
        return
    from representer.tasks.text.text_use import predict

    predict(*where, read_options(arguments))
