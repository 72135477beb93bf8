"""``representer fit signal DATA``: train a model of signals, leaving subjects out in turn."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from representer.cli.parser import add_options
from representer.tasks.signal import signal_config
from representer.tasks.signal.signal_config import SignalConfig

SUMMARY = "Train a model of signals on recordings of several subjects, leaving each out in turn."


def add_arguments(parser: Any) -> None:
    """Add one option per field of the configuration."""
    parser.add_argument(
        "--config", action="config", help="YAML file with these options", metavar="FILE"
    )
    add_options(parser, SignalConfig, positional=("data",))


def defaults(arguments: Any) -> dict[str, Any]:
    """Return the defaults that the demo brings with it."""
    return signal_config.defaults(demo=arguments.demo)


def run(arguments: Any) -> None:
    """Train, test, and write the run folder."""
    values = {field.name: arguments[field.name] for field in fields(SignalConfig)}
    config = SignalConfig(**values)
    from representer.tasks.signal.signal_fit import fit
    from representer.training.freed_memory import keep_freed_memory

    keep_freed_memory()
    fit(config)
