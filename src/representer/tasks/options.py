"""The options of a run: a dataclass that the command line and config.yaml share.

Free of torch, since the command line reads its options here.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import asdict, field, fields
from typing import TYPE_CHECKING, Any

from representer.numbers import parse_number

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def option(default: Any, help_text: str, **metadata: Any) -> Any:
    """Return a field with its help; ``metavar`` and ``choices`` are optional."""
    return field(default=default, metadata={"help": help_text, **metadata})


def is_share(text: str) -> bool:
    """Return True if a text is a number from 0 to 1."""
    number = parse_number(text)
    return number is not None and 0 <= number <= 1


def as_yaml(config: DataclassInstance) -> str:
    """Return the options of a run, as ``--config`` reads them."""
    import yaml

    options = {k: v for k, v in asdict(config).items() if v is not None and k != "resume"}
    return yaml.safe_dump(options, sort_keys=False, allow_unicode=True)


def determining(
    config: DataclassInstance, trainer: DataclassInstance, free: Collection[str]
) -> dict[str, Any]:
    """Return the options that determine a run.

    Args:
        config: Configuration of the run.
        trainer: The trainer's configuration, which checks the options of the same names itself.
        free: Names of options that a resumed run may change.
    """
    others = {f.name for f in fields(trainer)} | set(free)
    return {name: value for name, value in asdict(config).items() if name not in others}


def command_of(task: str, config: DataclassInstance, usual: Mapping[str, Any]) -> str:
    """Return the command that repeats a run, with the options that differ from the defaults.

    Args:
        task: What is fitted, ``"text"`` or ``"language"``.
        config: Configuration of the run, with ``data``, ``demo`` and optionally ``preset``.
        usual: Defaults of its preset, or of the demo.
    """
    chosen = asdict(config)
    words = ["representer", "fit", task, *([chosen["data"]] if chosen["data"] else [])]
    words += ["--preset", chosen["preset"]] if chosen.get("preset") else []
    words += ["--demo"] if chosen["demo"] else []
    plain = {f.name: f.default for f in fields(config)}
    for name, value in chosen.items():
        if name in ("data", "resume", "preset", "demo") or value == usual[name]:
            continue
        words.append("--" + name.replace("_", "-"))
        if not (value is True and plain[name] is False):  # a flag
            words.append(str(value).lower() if isinstance(value, bool) else str(value))
    return shlex.join(words)
