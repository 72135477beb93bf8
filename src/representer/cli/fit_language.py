"""``representer fit language DATA``: train a language model."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from representer.cli.parser import add_options
from representer.tasks.language import language_config
from representer.tasks.language.language_config import LanguageConfig

SUMMARY = "Train a language model on a running text."


def add_arguments(parser: Any) -> None:
    """Add one option per field of the configuration."""
    parser.add_argument(
        "--config", action="config", help="YAML file with these options", metavar="FILE"
    )
    add_options(parser, LanguageConfig, positional=("data",))


def defaults(arguments: Any) -> dict[str, Any]:
    """Return the defaults that a preset or the demo brings with it."""
    return language_config.defaults(arguments.preset, demo=arguments.demo)


def run(arguments: Any) -> None:
    """Train, test, and write the run folder."""
    values = {field.name: arguments[field.name] for field in fields(LanguageConfig)}
    config = LanguageConfig(**values)
    from representer.tasks.language.language_fit import fit
    from representer.training.freed_memory import keep_freed_memory

    keep_freed_memory()
    fit(config)
