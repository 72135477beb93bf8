"""``representer explain RUN DATA``: show what a prediction is made of."""

from __future__ import annotations

import sys
from typing import Any

from representer.cli.evaluate import read_molecules, read_options, task_of
from representer.cli.parser import add_number, add_options
from representer.errors import ArgumentError, KindError
from representer.tasks.molecule.molecule_config import MoleculeReading
from representer.tasks.text.text_config import ReadOptions

SUMMARY = "Show which words, or walks over atoms, the predictions of a trained model come from."


def add_arguments(parser: Any) -> None:
    """Add the run, the data, how much to show, and how to read."""
    parser.add_argument("run", type=str, help="run folder", metavar="RUN")
    parser.add_argument("data", type=str, help="table with texts or molecules", metavar="DATA")
    add_number(parser, "--limit", 10, "rows to explain, starting with the first")
    add_number(parser, "--top", 5, "n-grams, words or walks to show for each")
    add_options(parser, ReadOptions)
    add_options(parser, MoleculeReading)


def run(arguments: Any) -> None:
    """Print the explanations, and write them into the run's report."""
    for name in ("limit", "top"):
        if arguments[name] < 1:
            raise ArgumentError(name, arguments[name], "a positive integer")
    amount = {"limit": arguments.limit, "top": arguments.top}
    where, options = (arguments.run, arguments.data), read_options(arguments)
    task = task_of(arguments)
    if task == "signal":
        hint = "What its filters look for is in the run's report: representer report RUN"
        raise KindError("the run", "one of signals", "one of texts or molecules", hint=hint)
    if task == "molecule":
        from representer.printable import show
        from representer.tasks.molecule import molecule_use

        found = molecule_use.explain(*where, read_molecules(arguments), options, **amount)
        show("\n\n".join(map(molecule_use.as_text, found)))
        return
    from representer.tasks.text.text_explain import explain
    from representer.tasks.text.text_marks import as_text

    entries = explain(*where, options, **amount)
    styled = sys.stdout.isatty()
    print("\n\n".join(as_text(entry, styled=styled) for entry in entries))
