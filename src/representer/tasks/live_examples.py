"""Objects of the test part of a run, with names to choose them by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from representer.estimators.explanation import Example
from representer.printable import printable
from representer.storage.run_files import RunFiles
from representer.tasks.estimator_objects import Objects
from representer.tasks.estimator_use import EstimatorUse

MOST, LONGEST = 1000, 60  # examples, characters of a text in a name


def tested(
    use: EstimatorUse, demo: Callable[[], Objects], run: str, data: str | None
) -> list[Example]:
    """Return the objects of a path or of the demo; those of the training without the other parts.

    Raises:
        DataError: They cannot be used.
    """
    objects = demo() if data is None else of_path(use, run, data)
    files = RunFiles(run)

    def test_rows() -> set[int] | None:
        splits = files.json("splits.json")
        test = splits["test"]
        is_same = splits["sha256"].get(test["source"]) == objects.digest
        return set(test[f"{objects.place}s"]) if is_same else None

    rows = files.parsed("splits.json", test_rows) if files.has("splits.json") else None
    if rows is not None:
        objects = objects.subset([k for k, at in enumerate(objects.numbers) if at in rows])
    return named(objects, objects.place)


def of_path(use: EstimatorUse, run: str, data: str) -> Objects:
    """Return the objects of a file or folder that the model of a run can explain."""
    return use._to_predict(run, data, use.reading(), "cpu")[1]


def named(objects: Objects, place: str, groups: Sequence[str] = ()) -> list[Example]:
    """Return objects with their names; of each group as many as there is space for.

    Args:
        objects: All of them.
        place: What their numbers count: "line".
        groups: The group of each, if there are groups.
    """
    rows: dict[str, list[int]] = {}
    for row, group in enumerate(groups or [""] * len(objects)):
        rows.setdefault(group, []).append(row)
    each = max(1, MOST // max(1, len(rows)))
    return [
        Example(_name(objects, row, place), group, objects.objects[row])
        for group, own in list(rows.items())[:MOST]
        for row in own[:each]
    ]


def _name(objects: Objects, row: int, place: str) -> str:
    value, label = objects.objects[row], objects.labels[row]
    known = ", ".join(label) if isinstance(label, tuple) else label
    name = f"{place} {objects.numbers[row]}" + (f" ({known})" if known else "")
    return printable(name + (f": {value[:LONGEST]}" if isinstance(value, str) else ""))
