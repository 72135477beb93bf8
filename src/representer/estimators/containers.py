"""Strings and targets as users have them: lists, arrays, columns of data frames, Arrow columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from representer.errors import DataError


def strings_of(X: Any, several: str, one: str) -> list[str]:
    """Return the strings of a list, an array, a column, or a table with a single column.

    Args:
        X: The strings; tables are those of pandas, polars or Arrow.
        several: What they are, for messages: "texts".
        one: The same for one of them: "a string".

    Raises:
        DataError: X is a single string or has several columns, or an element is no string.
    """
    if isinstance(X, str):
        raise DataError(f"X is one string; expected a sequence of {several}", fix="Pass [X].")
    values = list(as_sequence(_column(X)))
    for row, value in enumerate(values):
        if not isinstance(value, str):
            kind = type(value).__name__
            raise DataError(f"X[{row}] is {value!r:.40} of type {kind}; expected {one}")
    return [str(value) for value in values]  # not of a subclass, such as those of NumPy


def as_sequence(y: Any) -> Any:
    """Return targets, or a column, with a length and rows of plain values."""
    if hasattr(y, "to_pylist"):
        return y.to_pylist()
    if isinstance(y, Tensor):
        return y.detach().cpu().numpy()
    if hasattr(y, "__len__") and hasattr(y, "__getitem__"):
        return y
    return np.asarray(y) if hasattr(y, "__array__") else list(y)


def _column(X: Any) -> Any:
    shape = getattr(X, "shape", ())
    if len(shape) != 2:
        return X
    names = getattr(X, "column_names", getattr(X, "columns", range(shape[1])))
    if shape[1] != 1:
        listed = ", ".join(str(name) for name in [*names][:5])
        fix = f"Pass one column, such as X[{next(iter(names))!r}]." if shape[1] else ""
        raise DataError(f"X has {shape[1]} columns: {listed}; expected one", fix=fix)
    if hasattr(X, "column"):
        return X.column(0)
    return X.iloc[:, 0] if hasattr(X, "iloc") else X[:, 0]
