"""Selection of an experiment's data sets by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from representer.errors import ArgumentError, DataError

D = TypeVar("D")


def wanted(root: Path, names: Sequence[str], known: Mapping[str, D]) -> list[D]:
    """Return the requested data sets.

    Args:
        root: The folder given by ``--data``.
        names: The names given by ``--datasets``; empty for all.
        known: The data sets of the experiment, by name.

    Raises:
        ArgumentError: If a name is unknown.
        DataError: If the folder does not exist.
    """
    for name in names:
        if name not in known:
            raise ArgumentError("datasets", name, f"some of {', '.join(known)}")
    if not root.is_dir():
        fix = "Pass --data DIR, or set REPRESENTER_DATA."
        raise DataError("there is no such folder", file=root, fix=fix)
    return [known[name] for name in names or known]
