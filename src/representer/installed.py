"""Cells, kernels, estimators, tasks and recipes of installed packages, by entry points."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any

KINDS = ("cells", "kernels", "estimators", "tasks", "recipes")


def announced(kind: str) -> list[EntryPoint]:
    """Return the entry points of the group ``representer.KIND``, ordered by name."""
    return sorted(entry_points(group=f"representer.{kind}"), key=lambda entry: entry.name)


def installed(kind: str) -> dict[str, Any]:
    """Return the objects of one kind that installed packages announce, by name.

    An object that cannot be loaded is left out with a warning; ``representer doctor`` names it. The
    kind is one of `KINDS`.
    """
    objects = {}
    for entry in announced(kind):
        try:
            objects[entry.name] = entry.load()
        except Exception as error:  # a broken package must not break this one
            warnings.warn(f"{about(kind, entry)} cannot be loaded: {error!r}", stacklevel=2)
    return objects


def about(kind: str, entry: EntryPoint) -> str:
    """Return the kind and name of an entry point, with the package that it is from."""
    package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    return f"{kind}: {entry.name}{package}"


def findings() -> Iterator[tuple[str, str, str]]:
    """Yield the kind and name, the package, and the error of each entry point; "" for none."""
    for group in KINDS:
        for entry in announced(group):
            package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "unknown package"
            try:
                entry.load()
                error = ""
            except Exception as raised:
                error = repr(raised)
            yield f"{group}: {entry.name}", package, error
