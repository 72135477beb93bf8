"""Conversion of model configurations to plain values and back."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

from representer.errors import ArgumentError
from representer.requirements import require

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Config = TypeVar("Config", bound=DataclassInstance)


def to_dict(config: DataclassInstance) -> dict[str, Any]:
    """Convert a configuration to values for JSON and YAML, with string keys."""
    return {name: _plain(value) for name, value in asdict(config).items()}


def from_dict(kind: type[Config], values: Mapping[str, Any]) -> Config:
    """Create a configuration from the values of `to_dict`.

    Args:
        kind: The class of the configuration.
        values: The fields by name; those with a default are optional.

    Raises:
        ArgumentError: If a name is unknown, or a field without a default is missing.
    """
    known = {field.name: field for field in fields(kind)}
    for name in values:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else ""
            raise ArgumentError(
                f"a key of {kind.__name__}", name, f"one of {', '.join(known)}", hint=hint
            )
    for name, field in known.items():
        is_required = field.default is MISSING and field.default_factory is MISSING
        if is_required and name not in values:
            raise ArgumentError(
                f"the keys of {kind.__name__}", sorted(map(str, values)), f"{name!r} among them"
            )
    return kind(**values)


def require_sizes(config: Any, *names: str, least: int = 1) -> None:
    """Require integers that JSON can hold, so none of NumPy.

    Raises:
        ArgumentError: If one is something else, or below `least`.
    """
    expected = "a positive integer" if least == 1 else f"an integer of at least {least}"
    for name in names:
        value = getattr(config, name)
        require(config, name, type(value) is int and value >= least, expected)


def require_token(config: Any, name: str) -> None:
    """Require the id of a token of the vocabulary."""
    value, size = getattr(config, name), config.vocabulary_size
    require(config, name, type(value) is int and 0 <= value < size, f"a token id below {size}")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
