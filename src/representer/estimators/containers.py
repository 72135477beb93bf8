"""Strings and targets as users have them: lists, arrays, columns of tables of any library."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from representer.errors import DataError
from representer.kernels.tokens import string_fix

_ROWS = "__iter__", "__getitem__", "__array__"  # a sequence has at least one


def strings_of(X: Any, several: str, one: str) -> list[str]:
    """Return the strings of a list, an array, a column, or a table with a single column.

    Args:
        X: The strings; tables are those of pandas, polars, Arrow or ``datasets``.
        several: What they are, for messages: "texts".
        one: The same for one of them: "a string".

    Raises:
        DataError: X is a single string or has several columns, or an element is no string.
    """
    if isinstance(X, str):
        raise DataError(f"X is one string; expected a sequence of {several}", fix="Pass [X].")
    values = list(as_sequence(column_of(X), "X"))
    for row, value in enumerate(values):
        if not isinstance(value, str):
            problem = f"X[{row}] is {value!r:.40} of type {type(value).__name__}; expected {one}"
            raise DataError(problem, fix=string_fix(value))
    return [str(value) for value in values]  # not of a subclass, such as those of NumPy


def as_sequence(y: Any, name: str = "y") -> Any:
    """Return targets, or a column, with a length and rows of plain values; tables as ``(N, K)``.

    Raises:
        DataError: It is a single value.
    """
    has_rows = any(hasattr(y, name) for name in _ROWS)
    if getattr(y, "shape", None) == () or not has_rows:
        kind = type(y).__name__
        raise DataError(f"{name} is {y!r:.40} of type {kind}; expected a sequence")
    if hasattr(y, "to_numpy") and hasattr(y, "convert_dtypes"):  # pandas; missing values are None
        return y.to_numpy(dtype=object, na_value=None)
    if has_columns(y):
        columns = [as_sequence(_named(y, name)) for name in _names(y)]
        table = np.empty((len(y), len(columns)), dtype=object)
        for k, column in enumerate(columns):
            table[:, k] = column
        return table
    for listed in ("to_pylist", "to_list"):  # Arrow, polars
        if hasattr(y, listed):
            return getattr(y, listed)()
    if isinstance(y, Tensor):
        return y.detach().cpu().numpy()
    if hasattr(y, "__len__") and hasattr(y, "__getitem__"):
        return y
    return np.asarray(y) if hasattr(y, "__array__") else list(y)


def pair_of(validation: Any) -> tuple[Any, Any]:
    """Return objects and targets of validation data.

    Raises:
        DataError: It is something else than a pair.
    """
    if not isinstance(validation, (tuple, list)) or len(validation) != 2:
        raise DataError(f"validation is of type {type(validation).__name__}; expected (X, y)")
    return validation[0], validation[1]


def column_of(X: Any) -> Any:
    """Return the only column of a table or an array ``(N, 1)``, and anything else as it is.

    Raises:
        DataError: There are several columns.
    """
    shape = getattr(X, "shape", ())
    if len(shape) != 2:
        return X
    names = _names(X)
    if shape[1] != 1:
        listed = ", ".join(str(name) for name in names[:5])
        fix = f"Pass one column, such as X[{names[0]!r}]." if names else ""
        raise DataError(f"X has {shape[1]} columns: {listed}; expected one", fix=fix)
    if hasattr(X, "iloc"):
        return X.iloc[:, 0]
    return _named(X, names[0]) if has_columns(X) else X[:, 0]


def records_of(X: Any) -> Any:
    """Return the rows of a table as dictionaries, and anything else as a sequence."""
    if not has_columns(X):
        return as_sequence(X, "X")
    names = _names(X)
    columns = [as_sequence(X[name]) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def has_columns(X: Any) -> bool:
    """Return True for tables of pandas, Arrow, polars and Hugging Face's ``datasets``."""
    is_table = len(getattr(X, "shape", ())) == 2
    return is_table and (hasattr(X, "column_names") or hasattr(X, "columns"))


def _names(X: Any) -> list[Any]:
    return [*getattr(X, "column_names", getattr(X, "columns", range(X.shape[1])))]


def _named(X: Any, name: Any) -> Any:
    return X.column(name) if hasattr(X, "column") else X[name]
