"""Read untrusted files: regular files only, with bounded size and nesting.

A run folder can come from an untrusted source. Named pipes and devices block or never end, symbolic
links point out of the folder, sparse files declare terabytes, and deeply nested text overflows the
stack. Every reader of a run folder uses this module, which refuses all of these before reading or
parsing.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

MAX_DEPTH = 64  # of JSON and YAML; files of this library have fewer than 12 levels
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKET = re.compile(rb"[^\[\]{}]+")


@contextmanager
def opened(path: str | Path, most: int, *, follow_links: bool = False) -> Iterator[tuple[int, int]]:
    """Open a regular file for reading and yield its descriptor and its size.

    Args:
        path: The file.
        most: The largest size in bytes.
        follow_links: Accept a symbolic link as the last component, as for a path given by the
            user.

    Raises:
        OSError: The file is missing, cannot be read, is not a regular file, or is too large.
            ``strerror`` states the problem.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe must not block
    flags |= 0 if follow_links else os.O_NOFOLLOW
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
    """Return the next `size` bytes of a file.

    Raises:
        OSError: The file ends early, because another process truncated it.
    """
    chunks = []
    while size:
        chunk = os.read(descriptor, min(size, 2**30))
        if not chunk:
            raise OSError(errno.EIO, "it became shorter while it was read", str(path))
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def physical_memory() -> int:
    """Return the memory of this machine in bytes, an upper bound for readable files."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def parse_json(data: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Return the value of a JSON text in UTF-8.

    Args:
        data: The text.
        max_depth: The deepest nesting of arrays and objects.

    Raises:
        ValueError: The text is not UTF-8, not JSON, nested too deeply, or holds NaN or an infinity.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    require_shallow(data, max_depth)
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:  # the caller's own stack is nearly full
        raise ValueError("it is nested too deeply") from None


def require_shallow(data: bytes, max_depth: int = MAX_DEPTH) -> None:
    """Refuse a JSON text that is nested too deeply, without parsing it.

    Raises:
        ValueError: It has more than `max_depth` levels.
    """
    # few brackets cannot nest deeply, so files with long flat lists skip the second pass
    if data.count(b"[") + data.count(b"{") > max_depth:
        brackets = _NO_BRACKET.sub(b"", _STRING.sub(b"", data))
        steps = (1 if bracket in b"[{" else -1 for bracket in brackets)
        if max(accumulate(steps), default=0) > max_depth:
            raise ValueError(f"it is nested more than {max_depth} levels deep")


def check_yaml(text: str, *, max_depth: int = MAX_DEPTH) -> None:
    """Refuse a YAML text that is nested too deeply or repeats parts of itself by aliases.

    Raises:
        ValueError: The text is nested too deeply or has an alias.
        yaml.YAMLError: It is not YAML.
    """
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):  # iterative, unlike yaml.load
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("it has an alias; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > max_depth:
            raise ValueError(f"it is nested more than {max_depth} levels deep")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")
