"""The plotted points and the largest errors of a molecule run."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rdkit")

from representer.tasks.molecule.molecule_data import MoleculePart
from representer.tasks.molecule.molecule_predictions import Predictions
from representer.tasks.molecule.molecule_results import points, verdict, worst_mistakes
from representer.tasks.molecule.molecule_targets import Targets

NUMBERS = Targets(("a",), (0.0,), (1.0,))
CLASSES = Targets(("c",), classes=(("no", "yes"),))


def part(values: list[float]) -> MoleculePart:
    count = len(values)
    smiles, lines = ["C" * (i + 1) for i in range(count)], list(range(2, count + 2))
    return MoleculePart("a.csv", smiles, lines, [], np.asarray(values)[:, None])


def test_a_point_is_truth_prediction_and_deviation():
    predictions = Predictions(
        "m", numbers=np.array([[1.5], [9.0], [2.5]]), deviations=np.array([[0.1], [9.0], [0.2]])
    )
    plotted = points(NUMBERS, part([1.0, np.nan, 2.0]), predictions)
    assert plotted == {"a": [[1.0, 1.5, 0.1], [2.0, 2.5, 0.2]]}


def test_the_largest_errors_come_first():
    numbers = np.array([[1.1], [9.0], [2.0], [0.0]])
    predictions = Predictions("m", numbers=numbers, deviations=np.full((4, 1), 0.5))
    errors = worst_mistakes(NUMBERS, part([1.0, np.nan, 3.0, 2.0]), predictions)
    assert [(e["line"], e["truth"], e["predicted"]) for e in errors] == [
        (5, "2", "0"), (4, "3", "2"), (2, "1", "1.1")
    ]  # fmt: skip


def test_the_most_confident_errors_come_first_and_correct_molecules_are_left_out():
    chances = np.array([[0.1, 0.9], [0.4, 0.6], [0.2, 0.8]])
    errors = worst_mistakes(
        CLASSES, part([1.0, 0.0, 0.0]), Predictions("m", probabilities=[chances])
    )
    assert [(e["line"], e["truth"], e["predicted"]) for e in errors] == [
        (4, "no", "yes"), (3, "no", "yes")
    ]  # fmt: skip
    assert [e["uncertainty"] for e in errors] == ["0.2", "0.4"]


def test_the_verdict_calls_a_smaller_error_ahead():
    def baseline(name: str, low: float, high: float) -> dict:
        return {"name": name, "difference": {"a": ((low + high) / 2, low, high)}}

    metrics = {
        "model": "M",
        "baselines": [baseline("A", -2, -1), baseline("B", 1, 2), baseline("C", -1, 1)],
    }
    assert verdict(NUMBERS, metrics).startswith("M is ahead of A; behind B; level with C, by")
