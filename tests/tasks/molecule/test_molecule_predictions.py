"""Metrics and differences of predictions for molecules."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rdkit")

from representer.tasks.molecule.molecule_predictions import (
    Predictions,
    differences,
    figures_of,
    is_ahead,
)
from representer.tasks.molecule.molecule_targets import Targets

NUMBERS = Targets(("a",), (0.0,), (1.0,))
CLASSES = Targets(("c",), classes=(("no", "yes"),))


def test_a_smaller_error_and_a_higher_accuracy_are_ahead():
    assert is_ahead(NUMBERS, (-0.2, -0.3, -0.1)) is True
    assert is_ahead(NUMBERS, (0.2, 0.1, 0.3)) is False
    assert is_ahead(CLASSES, (0.2, 0.1, 0.3)) is True
    assert is_ahead(CLASSES, (-0.2, -0.3, -0.1)) is False
    assert is_ahead(NUMBERS, (0.1, -0.1, 0.3)) is None


def test_a_difference_is_that_of_the_model_minus_the_baseline():
    truth = np.arange(40.0)[:, None]
    model, baseline = Predictions("m", numbers=truth + 1), Predictions("b", numbers=truth + 3)
    assert differences(NUMBERS, truth, model, baseline)["a"] == pytest.approx((-2, -2, -2))
    labels = np.array([0.0, 1.0] * 20)[:, None]
    right = np.stack([1 - labels[:, 0], labels[:, 0]], axis=1)
    model, baseline = (Predictions("p", probabilities=[p]) for p in (right, 1 - right))
    assert differences(CLASSES, labels, model, baseline)["c"][0] == 1


def test_the_auc_is_that_of_the_second_class():
    labels = np.array([[0.0], [0.0], [1.0], [1.0], [np.nan]])
    chances = np.array([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.2, 0.8], [0.0, 1.0]])
    figures = figures_of(CLASSES, labels, Predictions("p", probabilities=[chances]))["c"]
    assert figures["auc"] == 0.75  # three of the four pairs are in order
    assert figures["count"] == 4
    alone = figures_of(CLASSES, labels[:2], Predictions("p", probabilities=[chances[:2]]))
    assert alone["c"]["auc"] is None
