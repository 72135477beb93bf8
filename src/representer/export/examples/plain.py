"""Replacements of torch and of classes that need it in a program without this library."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class _ValueError(ValueError):
    """A value is not what is expected."""

    def __init__(self, name: str, value: Any, expected: str, *, hint: str = "") -> None:
        super().__init__(f"{name} is {value!r}; expected {expected}. {hint}".rstrip())


class _ImportError(ImportError):
    """A package is missing."""

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install {package}")


class _Graph(NamedTuple):
    """Labels of the nodes, ends of the edges ``(2, E)``, labels of the edges or None."""

    nodes: Any
    edge_index: Any
    edges: Any = None


class _Torch:
    """The functions of torch that programs need, on arrays."""

    int64 = np.int64

    @staticmethod
    def tensor(values: Any, dtype: Any = None) -> Any:
        """Return an array."""
        return np.array(values, dtype)


ArgumentError, MissingExtraError, Graph, torch = _ValueError, _ImportError, _Graph, _Torch
