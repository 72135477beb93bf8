"""The labels of objects as encoded targets, in one column or several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from representer.data.tables import LabelMap
from representer.errors import DataError
from representer.estimators.classes import Classes, ClassTable
from representer.estimators.targets import Numbers
from representer.numbers import parse_number

if TYPE_CHECKING:
    from representer.tasks.estimator_objects import Objects


def find_classes(main: Objects) -> list[list[str]]:
    """Return the names of the classes of each target, sorted.

    Raises:
        DataError: A target has only one.
    """
    found = []
    for column, labels in main.columns:
        known = [label for label in labels if label]
        if len(set(known)) < 2:
            problem = (
                f"all {len(known)} labels are {known[0]!r:.60}" if known else "there are no labels"
            )
            fix = "A classifier needs at least two classes; are these the right labels?"
            raise DataError(problem, file=main.labels_file, column=column, fix=fix)
        found.append(list(LabelMap.build(known).names))
    return found


def encode_labels(source: Objects, classes: Sequence[Sequence[str]]) -> NDArray[Any]:
    """Return the number of each class, or without classes the numbers themselves.

    Args:
        source: The objects.
        classes: Names of the classes of each target; none for numbers.

    Returns:
        Values ``(N,)`` of one target, ``(N, K)`` of several, NaN where unknown.

    Raises:
        DataError: A label is not one of the classes or not a finite number; with file and line.
    """
    columns = source.columns
    encoded = [
        _encoded(source, column, labels, names)
        for (column, labels), names in zip(columns, classes or [()] * len(columns), strict=True)
    ]
    return encoded[0] if len(encoded) == 1 else np.stack(encoded, axis=1)


def _encoded(
    source: Objects, column: str | None, labels: Sequence[str | None], names: Sequence[str]
) -> NDArray[Any]:
    values: list[float] = []
    is_optional = len(source.targets) > 1
    classes = LabelMap(tuple(names)) if names else None
    for label, line in zip(labels, source.lines, strict=True):
        at = line if source.has_lines else None
        place: Any = {"file": source.labels_file, "line": at, "column": column}
        if is_optional and not label:
            values.append(math.nan)
            continue
        if classes:
            values.append(classes.encode(label or "", **place))
            continue
        number = parse_number(label) if label is not None else None
        if number is None or not math.isfinite(number):
            problem = f"the label is {label!r:.60}; expected a finite number"
            raise DataError(problem, **place)
        values.append(number)
    return np.array(values, dtype=np.int64 if names and not is_optional else np.float64)


def find_target(
    main: Objects, train: NDArray[Any], classes: Sequence[Sequence[str]]
) -> Classes | ClassTable | Numbers:
    """Return what is predicted.

    Args:
        main: The objects that the training part is of, for messages.
        train: Encoded labels of the training part.
        classes: As in `encode_labels`.

    Raises:
        DataError: A target has nothing to learn in the training part.
    """
    table = train.reshape(len(train), -1)
    for k, (column, _) in enumerate(main.columns):
        place: Any = {"file": main.labels_file, "column": column}
        known = table[~np.isnan(table[:, k]), k]
        if classes and len(set(known.tolist())) < 2:
            fix = "Add examples of the other classes."
            raise DataError("only one class is left to train on", **place, fix=fix)
        if not classes:
            try:
                Numbers.find(known)
            except DataError as error:
                problem = str(error).replace("y has", "the training part has")
                raise DataError(problem, **place) from None
    if not classes:
        return Numbers.find(train)
    columns = tuple(Classes(tuple(names)) for names in classes)
    return columns[0] if len(columns) == 1 else ClassTable(columns)
