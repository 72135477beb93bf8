"""``representer fit text DATA``: train a text classifier."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from representer.cli.parser import add_options
from representer.tasks.text import text_config
from representer.tasks.text.text_config import TextConfig

SUMMARY = "Train a text classifier on a table of texts and labels."


def add_arguments(parser: Any) -> None:
    """Add one option per field of the configuration."""
    parser.add_argument(
        "--config", action="config", help="YAML file with these options", metavar="FILE"
    )
    add_options(parser, TextConfig, positional=("data",))


def defaults(arguments: Any) -> dict[str, Any]:
    """Return the defaults that a preset, the demo or the cell brings with it."""
    return text_config.defaults(arguments.preset, demo=arguments.demo, cell=arguments.cell)


def run(arguments: Any) -> None:
    """Train, test, and write the run folder."""
    values = {field.name: arguments[field.name] for field in fields(TextConfig)}
    config = TextConfig(**values)
    from representer.tasks.text.text_demo import demo
    from representer.tasks.text.text_fit import fit
    from representer.training.freed_memory import keep_freed_memory

    keep_freed_memory()
    (demo if config.demo else fit)(config)
