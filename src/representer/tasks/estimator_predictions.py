"""The columns that ``predict`` adds to a table."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from representer.report.results import Predictions
from representer.tasks.estimator_objects import Objects


def added_columns(
    objects: Objects, predictions: Sequence[Predictions], classes: Sequence[Sequence[str]]
) -> tuple[list[str], dict[int, list[str]]]:
    """Return the names of the added columns, and their cells by line."""
    names = objects.targets if len(objects.targets) == len(predictions) else ()
    ends = [f"_{name}" for name in names or range(1, len(predictions) + 1)]
    added: list[str] = []
    parts: list[list[list[str]]] = []
    for k, own in enumerate(predictions):
        end = ends[k] if len(predictions) > 1 else ""
        if own.chances is not None:
            added += [f"prediction{end}", f"probability{end}"]
            pairs = zip(own.values.tolist(), own.chances.tolist(), strict=True)
            parts.append([[classes[k][int(number)], f"{chance:.6f}"] for number, chance in pairs])
            continue
        if own.probabilities is None:
            added += [f"prediction{end}", f"uncertainty{end}"]
            deviations = np.zeros(0) if own.deviations is None else own.deviations
            numbers = [own.values, deviations]
            if own.half_widths is not None:
                added += [f"low{end}", f"high{end}"]
                numbers += [own.values - own.half_widths, own.values + own.half_widths]
            parts.append([[f"{number:.9g}" for number in row] for row in np.stack(numbers, 1)])
            continue
        added += [f"prediction{end}", *(f"probability{end}_{name}" for name in classes[k])]
        rows = [
            [classes[k][int(c)], *(f"{p:.6f}" for p in chances)]
            for c, chances in zip(own.values, own.probabilities, strict=True)
        ]
        if own.sets is not None:
            added.append(f"prediction_set{end}")
            for row, inside in zip(rows, own.sets, strict=True):
                row.append(json.dumps([classes[k][c] for c in np.flatnonzero(inside).tolist()]))
        parts.append(rows)
    joined = ([cell for part in row for cell in part] for row in zip(*parts, strict=True))
    return added, dict(zip(objects.lines, joined, strict=True))
