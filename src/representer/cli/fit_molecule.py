"""``representer fit molecule DATA``: train a model of molecules."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from representer.cli.parser import add_options
from representer.tasks.molecule import molecule_config
from representer.tasks.molecule.molecule_config import MoleculeConfig

SUMMARY = "Train a model of molecules on a table of SMILES and values."


def add_arguments(parser: Any) -> None:
    """Add one option per field of the configuration."""
    parser.add_argument(
        "--config", action="config", help="YAML file with these options", metavar="FILE"
    )
    add_options(parser, MoleculeConfig, positional=("data",))


def defaults(arguments: Any) -> dict[str, Any]:
    """Return the defaults that a preset, the demo or the task brings with it."""
    return molecule_config.defaults(arguments.preset, demo=arguments.demo, task=arguments.task)


def run(arguments: Any) -> None:
    """Train, test, and write the run folder."""
    values = {field.name: arguments[field.name] for field in fields(MoleculeConfig)}
    config = MoleculeConfig(**values)
    from representer.tasks.molecule.molecule_fit import fit
    from representer.training.freed_memory import keep_freed_memory

    keep_freed_memory()
    fit(config)
