"""``suggest``: the rows of a pool to measure next, among those that meet conditions."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from representer.errors import ArgumentError, DataError
from representer.estimators.improvement import suggestions
from representer.tasks.objects import Objects, shown_cell

COMPARISONS: dict[str, Callable[..., Any]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, ">": operator.gt,
}  # fmt: skip


def suggested_rows(
    estimator: Any, objects: Objects, noun: str, k: int, *, maximize: bool, cost: str | None,
    where: Sequence[str], best: float | None, of: str | None,
) -> list[list[object]]:  # fmt: skip
    """Return the head and the rows of a table of suggestions, see `Regressor.suggest`.

    Raises:
        DataError: A cost or a condition cannot be used.
        ArgumentError: An option is out of its range.
    """
    names = list(objects.targets)
    if of is not None and of not in names:
        raise ArgumentError("of", of, f"one of {', '.join(names) or 'the targets'}")
    chosen = suggestions(
        estimator, objects.objects, k, maximize=maximize, best=best,
        costs=None if cost is None else numbers_in(objects, cost),
        allowed=allowed_by(objects, where), target=names.index(of) if of else 0,
    )  # fmt: skip
    head = list(objects.table.head) if objects.table else [noun]
    rows = dict(zip(objects.table.lines, objects.table.rows, strict=True)
                if objects.table else ())  # fmt: skip
    lines: list[list[object]] = [[*head, "prediction", "uncertainty", "improvement"]]
    for index, *numbers in chosen:
        row = rows.get(objects.lines[index], [objects.numbers[index]])
        lines.append([*row, *(f"{number:.6g}" for number in numbers)])
    return lines


def numbers_in(objects: Objects, column: str) -> NDArray[np.float64]:
    """Return the numbers of a column of the table ``(N,)``."""
    if objects.table is None or column not in objects.table.columns:
        names = ", ".join(objects.table.columns) if objects.table else "none"
        problem = f"there is no column {column!r}; the columns are {names}"
        raise DataError(problem, file=objects.source)
    position = objects.table.columns.index(column)
    cells = {line: row[position] for line, row in
             zip(objects.table.lines, objects.table.rows, strict=True)}  # fmt: skip
    numbers = []
    for line in objects.lines:
        try:
            numbers.append(float(str(cells[line])))
        except ValueError:
            problem = f"{shown_cell(cells[line])!r} is not a number"
            raise DataError(problem, file=objects.source, line=line, column=column) from None
    return np.array(numbers)


def allowed_by(objects: Objects, conditions: Sequence[str]) -> NDArray[np.bool_]:
    """Return which objects meet every condition ``(N,)``, such as ``weight<=500``.

    Raises:
        ArgumentError: A condition is of another form.
        DataError: There is no such column, or a cell is no number.
    """
    result = np.ones(len(objects), bool)
    for condition in conditions:
        parts = re.fullmatch(r"(.+?)\s*(<=|>=|==|!=|<|>)\s*([^<>=!]+)", condition.strip())
        try:
            column, sign, limit = parts.groups() if parts else ("", "", "")
            bound = float(limit)
        except ValueError:
            raise ArgumentError("where", condition, "a condition such as 'weight<=500'") from None
        result &= COMPARISONS[sign](numbers_in(objects, column), bound)
    return result
