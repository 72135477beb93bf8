"""``representer predict RUN DATA -o OUT.csv``: ask a trained model about texts or molecules."""

from __future__ import annotations

from typing import Any

from representer.cli.evaluate import read_molecules, read_options, task_of
from representer.cli.parser import add_options
from representer.tasks.molecule.molecule_config import MoleculeReading
from representer.tasks.text.text_config import ReadOptions

SUMMARY = "Ask a trained model about the texts or molecules of a table."


def add_arguments(parser: Any) -> None:
    """Add the run, the data, where to write, and how to read."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument("data", type=str, help="table with texts or molecules", metavar="DATA")
    parser.add_argument(
        "-o", "--output", type=str | None, help="CSV file to write; stdout if left out",
        metavar="OUT.csv",
    )  # fmt: skip
    add_options(parser, ReadOptions)
    add_options(parser, MoleculeReading)


def run(arguments: Any) -> None:
    """Write the rows of the input, in order, with a prediction and how sure it is."""
    where = (arguments.run, arguments.data, arguments.output)
    if task_of(arguments) == "molecule":
        from representer.tasks.molecule.molecule_use import predict as predict_molecules

        predict_molecules(*where, read_molecules(arguments), read_options(arguments))
        return
    from representer.tasks.text.text_use import predict

    predict(*where, read_options(arguments))
