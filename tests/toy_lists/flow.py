"""``fit``, ``evaluate``, ``predict`` and ``explain`` of lists: reader, demo, baselines, facts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from representer.data.tables import read_grid
from representer.errors import DataError
from representer.tasks.flow import EstimatorTask
from representer.tasks.objects import Data, Objects
from representer.tasks.results import Baseline, Facts, majority_class
from toy_lists.estimator import ListClassifier
from toy_lists.task import LISTS


def is_number(value: Any) -> bool:
    """Return True for a number of a JSON file."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class ListTask(EstimatorTask):
    """The task ``lists``."""

    declared, noun, nouns = LISTS, "list", "lists"
    classifier = ListClassifier

    def read(self, path: str | Path, *, require_labels: bool, **_: Any) -> Objects:
        """Read a JSONL file of objects with ``values`` and ``label``."""
        grid = read_grid(path, ["values"] + ["label"] * require_labels)
        rows = [dict(zip(grid.columns, cells, strict=True)) for cells in grid.rows]
        for line, row in zip(grid.lines, rows, strict=True):
            values = row["values"]
            if not isinstance(values, list) or not values or not all(map(is_number, values)):
                raise DataError("values is no list of numbers", file=path, line=line)
        return Objects(
            source=str(path),
            labels_file=str(path),
            objects=[tuple(row["values"]) for row in rows],
            labels=[row.get("label") for row in rows],
            lines=grid.lines,
            files=(Path(path),),
            label_column="label",
        )

    def demo(self) -> Objects:
        """Return random lists; the label says whether the sum of squares is large."""
        rng = random.Random(0)
        lists = [[rng.gauss(0, 1) for _ in range(rng.randint(2, 6))] for _ in range(200)]
        labels = ["up" if sum(x * x for x in one) > 3 else "down" for one in lists]
        return Objects("200 random lists", "200 random lists", lists, labels, range(1, 201))

    def describe(self, config: Any, data: Data) -> Facts:
        """Return the lengths of the lists, for the report."""
        lengths = [len(one) for one in data.parts["train"].objects]
        return Facts({"numbers per list": f"{min(lengths)} to {max(lengths)}"})

    def baselines(self, config: Any, data: Data) -> list[Baseline]:
        """Return the most frequent class."""
        return [majority_class(data.values["train"].tolist(), len(data.parts["test"]))]


FLOW = ListTask()
fit, evaluate, predict, explain = FLOW.fit, FLOW.evaluate, FLOW.predict, FLOW.explain
