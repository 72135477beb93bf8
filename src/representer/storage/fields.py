"""Build a dataclass from the values of a file, checking every name, type and size."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from representer.errors import RepresenterError
from representer.limits import LARGEST_INTEGER, LIMITS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Kind = TypeVar("Kind", bound=DataclassInstance)

_LONGEST_TEXT = 2**16
_LONGEST_LIST = 2**22
_NAMES = {int: "an integer", float: "a finite number", bool: "true or false", str: "a text"}


def from_values(kind: type[Kind], values: Any) -> Kind:
    """Return an instance of a dataclass from values read from JSON.

    Integers must be within `limits.LIMITS`, so that a file cannot request absurd sizes.

    Args:
        kind: The dataclass, whose type hints are checked.
        values: A JSON object; fields with a default may be missing.

    Raises:
        ValueError: A name is unknown or missing, or a value has the wrong type or is out of range.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"it holds {_shown(values)}; expected an object")
    hints = _hints(kind)
    unknown = [name for name in values if name not in hints]
    if unknown:
        raise ValueError(f"unknown key {_shown(unknown[0])}")
    arguments = {}
    for field in fields(kind):
        if field.name in values:
            arguments[field.name] = _checked(hints[field.name], values[field.name], field.name)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{field.name!r} is missing")
    try:
        return kind(**arguments)
    except (RepresenterError, TypeError, ValueError) as error:
        raise ValueError(str(error)) from None


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _checked(hint: Any, value: Any, name: str) -> Any:
    """Convert a value to its type hint: JSON lists become tuples, objects become dataclasses."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if is_dataclass(hint) and isinstance(hint, type):
        return from_values(hint, value)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, name)
    if origin is Literal:
        if isinstance(value, str | bool) and value in arguments:
            return value
        raise ValueError(f"{name} is {_shown(value)}; expected {' or '.join(map(repr, arguments))}")
    if origin is tuple:
        return _tuple(arguments, value, name)
    if origin is dict:
        if not isinstance(value, Mapping) or len(value) > _LONGEST_LIST:
            raise ValueError(f"{name} is {_shown(value)}; expected an object")
        key_hint, item_hint = arguments
        return {_key(key_hint, k, name): _checked(item_hint, v, name) for k, v in value.items()}
    return _plain(hint, value, name)


def _one_of(hints: tuple[Any, ...], value: Any, name: str) -> Any:
    problem = ValueError(f"{name} is {_shown(value)}")
    for hint in hints:
        if hint is type(None):
            if value is None:
                return None
            continue
        try:
            return _checked(hint, value, name)
        except ValueError as error:
            problem = error
    raise problem


def _tuple(hints: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or len(value) > _LONGEST_LIST:
        raise ValueError(f"{name} is {_shown(value)}; expected a list")
    if len(hints) == 2 and hints[1] is ...:
        return tuple(_checked(hints[0], item, name) for item in value)
    if len(value) != len(hints):
        raise ValueError(f"{name} has {len(value)} entries; expected {len(hints)}")
    return tuple(_checked(hint, item, name) for hint, item in zip(hints, value, strict=True))


def _key(hint: Any, key: Any, name: str) -> Any:
    if hint is int and isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) < 10:
        return int(key)  # JSON keys are strings
    return _plain(hint, key, name)


def _plain(hint: Any, value: Any, name: str) -> Any:
    expected = _NAMES[hint]
    if hint is float and type(value) in (int, float):
        if abs(value) <= LARGEST_INTEGER**2 and math.isfinite(value):
            return float(value)
    elif type(value) is hint:
        limit = LIMITS.get(name, LARGEST_INTEGER)
        if hint is int and not -LARGEST_INTEGER <= value <= limit:
            expected = f"an integer of at most {limit:,}"
        elif hint is str and len(value) > _LONGEST_TEXT:
            expected = f"a text of at most {_LONGEST_TEXT:,} characters"
        else:
            return value
    raise ValueError(f"{name} is {_shown(value)}; expected {expected}")


def _shown(value: Any) -> str:
    """Return a shortened value for a message."""
    text = repr(value) if isinstance(value, str | int | float | bool | None) else ""
    if isinstance(value, int) and not -(10**20) < value < 10**20:
        text = "a huge integer"
    text = text or {dict: "an object", list: "a list"}.get(type(value), type(value).__name__)
    return text if len(text) <= 60 else f"{text[:57]}..."
