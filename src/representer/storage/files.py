"""Read untrusted files: regular files only, with bounded size and nesting.

A run folder can come from an untrusted source. Named pipes and devices block or never end, symbolic
links point out of the folder, sparse files declare terabytes, and deeply nested text overflows the
stack. Every reader of a run folder uses this module, which refuses all of these before reading or
parsing.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from representer.checks import LARGEST_INTEGER, LIMITS
from representer.errors import DataError, RepresenterError
from representer.machine import BINARY, CLOSED_ON_EXEC, NO_FOLLOW, NON_BLOCK

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Kind = TypeVar("Kind", bound=DataclassInstance)


MAX_DEPTH = 64  # of JSON and YAML; files of this library have fewer than 12 levels
MAX_YAML = 2**17  # characters; PyYAML is written in Python and reads 100,000 in a second
_CHUNK = 2**20  # bytes whose depth is computed at once


@contextmanager
def opened(path: str | Path, most: int, *, follow_links: bool = False) -> Iterator[tuple[int, int]]:
    """Open a regular file for reading and yield its descriptor and its size.

    ``follow_links`` accepts a symbolic link as the last component, as for a path given by the user.
    """
    flags = os.O_RDONLY | NON_BLOCK | CLOSED_ON_EXEC | BINARY  # a pipe must not block
    flags |= 0 if follow_links else NO_FOLLOW
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise OSError(errno.EINVAL, "it is not a regular file", str(path)) from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if status.st_size > most:
            problem = f"it has {status.st_size:,} bytes; at most {most:,} are read"
            raise OSError(errno.EFBIG, problem, str(path))
        yield descriptor, status.st_size
    finally:
        os.close(descriptor)


def read_bytes(path: str | Path, most: int, *, follow_links: bool = False) -> bytes:
    """Return the content of a regular file of at most `most` bytes, see `opened`."""
    with opened(path, most, follow_links=follow_links) as (descriptor, size):
        return read_exactly(descriptor, size, path)


def read_exactly(descriptor: int, size: int, path: str | Path) -> bytes:
    """Return the next `size` bytes of a file."""
    chunks = []
    while size:
        chunk = os.read(descriptor, min(size, 2**30))
        if not chunk:
            raise OSError(errno.EIO, "it became shorter while it was read", str(path))
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


ASSUMED_MEMORY = 4 * 2**30  # where the system does not tell, as on Windows


def physical_memory() -> int:
    """Return the memory of this machine in bytes, an upper bound for readable files."""
    if not hasattr(os, "sysconf"):
        return ASSUMED_MEMORY
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def parse_json(data: bytes | str, *, max_depth: int = MAX_DEPTH, **hooks: Any) -> Any:
    """Return the value of a JSON text."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    require_shallow(data, max_depth)
    try:
        return json.loads(text, parse_constant=_refuse_constant, **hooks)
    except RecursionError:  # the caller's own stack is nearly full
        raise ValueError("it is nested too deeply") from None


def require_shallow(data: bytes | str, max_depth: int = MAX_DEPTH) -> None:
    """Refuse a JSON text that is nested too deeply, in linear time and without parsing it."""
    opening = ("[", "{") if isinstance(data, str) else (b"[", b"{")
    if sum(map(data.count, opening)) <= max_depth:  # type: ignore[arg-type]
        return
    import numpy as np  # only here, since `--help` reads no file

    steps = np.zeros(256, np.int8)  # of the depth at a byte
    steps[list(b"[{")], steps[list(b"]}")] = 1, -1
    data = data.encode("utf-8", "replace") if isinstance(data, str) else data
    # without the escaped characters, every quote begins or ends a string
    codes = np.frombuffer(data.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    depth, is_inside = np.int64(0), np.uint8(0)
    for start in range(0, len(codes), _CHUNK):
        chunk = codes[start : start + _CHUNK]
        inside = np.bitwise_xor.accumulate((chunk == ord('"')).view(np.uint8)) ^ is_inside
        depths = depth + np.cumsum(np.where(inside, 0, steps[chunk]), dtype=np.int64)
        if depths.max() > max_depth:
            raise ValueError(f"it is nested more than {max_depth} levels deep")
        depth, is_inside = depths[-1], inside[-1]


def parse_yaml(text: str, *, file: str | Path | None = None) -> tuple[Any, dict[str, str]]:
    """Return the value of a YAML text, and the entries of its mapping as they are written."""
    import yaml

    line = None
    try:
        _require_plain_yaml(text)
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        value = None if root is None else loader.construct_document(root)
        repr(value)  # raises for an integer of thousands of digits
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else None
        problem = getattr(error, "problem", None) or "it is not YAML"
    except ValueError as error:
        problem = str(error)
    except (ArithmeticError, AttributeError, LookupError, TypeError):  # of PyYAML's constructors
        problem = "a value is not of its type"
    else:
        entries = root.value if isinstance(root, yaml.MappingNode) else []
        return value, {key.value: entry.value for key, entry in entries}
    raise DataError(problem, file=file, line=line, fix="Write it as KEY: VALUE.")


def _require_plain_yaml(text: str) -> None:
    """Refuse a YAML text that is too long or deep, or has an alias or a merge key."""
    import yaml

    if len(text) > MAX_YAML:
        raise ValueError(f"it has {len(text):,} characters; at most {MAX_YAML:,} are read")
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):  # iterative, unlike yaml.load
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("it has an alias; write the value out")
        if isinstance(event, yaml.ScalarEvent) and (
            (event.value == "<<" and event.implicit[0]) or str(event.tag).endswith(":merge")
        ):
            raise ValueError("it has a merge key; write the values out")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


# Build a dataclass from the values of a file, checking every name, type and size.

_LONGEST_TEXT = 2**16
_LONGEST_LIST = 2**22
_NAMES = {int: "an integer", float: "a finite number", bool: "true or false", str: "a text"}


def from_values(kind: type[Kind], values: Any) -> Kind:
    """Return an instance of a dataclass from values read from JSON.

    Integers must be within `limits.LIMITS`, so that a file cannot request absurd sizes.
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
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


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
