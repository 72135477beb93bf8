"""The journal of a Gram matrix on disk: whose it is, and which of its blocks are done."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from representer.errors import ArgumentError

Corner = tuple[int, int]
_MEND = "Choose another file, or delete this one and its journal."


@dataclass
class Journal:
    """Lines of JSON: the fingerprint, then a block's corner and checksum each.

    A line counts once it ends in a line break; what a kill left half written is cut off.

    Attributes:
        path: The file.
        checksums: The blocks that are done.
    """

    path: Path
    checksums: dict[Corner, int]

    @staticmethod
    def open(matrix: Path, mark: str) -> Journal:
        """Open or start the journal of a matrix file.

        Raises:
            ArgumentError: If the matrix is another's, or there is one without a journal.
        """
        path = _journal_of(matrix)
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        if not lines:
            if matrix.exists():
                raise _of_another(matrix)
            path.write_text(json.dumps({"fingerprint": mark}) + "\n", encoding="utf-8")
            return Journal(path, {})
        if json.loads(lines[0]).get("fingerprint") != mark:
            expected = "the Gram matrix of this kernel, these objects and this block size"
            raise ArgumentError("out", str(matrix), expected, hint=_MEND)
        entries = [json.loads(line) for line in lines[1:]]
        with path.open("r+b") as file:
            file.truncate(sum(len(line) + 1 for line in lines))
        return Journal(path, {(i, j): checksum for i, j, checksum in entries})

    def add(self, corner: Corner, checksum: int) -> None:
        """Write down that a block is done."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([*corner, checksum]) + "\n")
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def alone(matrix: Path) -> Iterator[None]:
    """Wait until nobody else writes a matrix file, and keep others waiting inside the block.

    The lock is the system's, on the journal, so that a kill ends it.

    Raises:
        ArgumentError: If there is such a file without a journal, which is then not made.
    """
    path = _journal_of(matrix)
    if matrix.exists() and not path.exists():
        raise _of_another(matrix)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _journal_of(matrix: Path) -> Path:
    return matrix.with_name(f"{matrix.name}.journal")


def _of_another(matrix: Path) -> ArgumentError:
    expected = "a file that this function wrote, with its journal beside it"
    return ArgumentError("out", str(matrix), expected, hint=_MEND)


def fingerprint(kernel: Any, *contents: Any) -> str:
    """Return a digest of a kernel's arguments, of objects and of whatever else is given."""
    digest = hashlib.sha256()
    for content in (kernel, *contents):
        _feed(digest, content)
    return digest.hexdigest()


def _parts(content: Any) -> list[Any] | None:
    """Return what a networkx graph or a module is made of; None of anything else."""
    if hasattr(content, "nodes") and hasattr(content, "is_directed"):
        ends = [list(content.nodes(data=True)), list(content.edges(data=True))]
        return [bool(content.is_directed()), *ends]
    if hasattr(content, "state_dict"):
        return [repr(content), dict(content.state_dict())]
    return None


def _feed(digest: Any, content: Any) -> None:
    """Add the kind, the size and the value of anything, so that no two of them read alike."""
    if hasattr(content, "get_params"):
        parameters = sorted(content.get_params(deep=False).items())
        digest.update(f"{type(content).__qualname__} {len(parameters)};".encode())
        for name, value in parameters:
            digest.update(f"{name}=".encode())
            _feed(digest, value)
    elif isinstance(content, Tensor):
        _feed(digest, content.detach().cpu().numpy())
    elif isinstance(content, (np.ndarray, np.generic)) and content.dtype != object:
        array = np.ascontiguousarray(content)
        digest.update(f"array {array.dtype.str} {array.shape};".encode())
        digest.update(array.tobytes())
    elif isinstance(content, (str, bytes, int, float, bool, type(None))):
        text = repr(content).encode()
        digest.update(f"{type(content).__name__} {len(text)};".encode() + text)
    elif (parts := _parts(content)) is not None:
        _feed(digest, parts)
    elif isinstance(content, Mapping):
        _feed(digest, [list(pair) for pair in content.items()])
    elif callable(content):
        name = f"{getattr(content, '__module__', '')}.{getattr(content, '__qualname__', '')}"
        digest.update(f"function {name};".encode())
    elif isinstance(content, Iterable):
        items = list(content)
        digest.update(f"list {len(items)};".encode())
        for item in items:
            _feed(digest, item)
    else:
        raise ArgumentError("X", content, "objects of numbers, strings or arrays, for gram()")
