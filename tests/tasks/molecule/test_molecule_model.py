"""Validation of a molecule run."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rdkit")
pytest.importorskip("torch_geometric")

from representer.estimators.graph_batches import outputs_of
from representer.tasks.molecule.molecule_config import MoleculeConfig
from representer.tasks.molecule.molecule_data import prepare
from representer.tasks.molecule.molecule_model import (
    build_model,
    training_task,
    validation,
)
from representer.tasks.molecule.molecule_targets import Targets


def test_the_loss_is_in_units_of_training_and_the_rmse_in_that_of_the_target():
    targets = Targets(("a",), (10.0,), (4.0,))
    outputs = np.array([[[0.0], [1.0]], [[0.0], [2.0]]])  # of two members: means 10 and 16
    metrics = validation(targets, outputs, np.array([[12.0], [10.0]]))
    assert metrics["valid_rmse"] == pytest.approx(((2**2 + 6**2) / 2) ** 0.5)
    assert metrics["valid_loss"] == pytest.approx((2**2 + 6**2) / 2 / 4**2)


def test_a_classification_is_validated_by_the_mean_probability_of_the_members():
    targets = Targets(("c",), classes=(("no", "yes"),))
    logits = np.log(np.array([[[0.2, 0.8], [0.5, 0.5]], [[0.6, 0.4], [0.9, 0.1]]]))
    metrics = validation(targets, logits, np.array([[1.0], [np.nan]]))
    assert metrics["valid_loss"] == pytest.approx(-np.log(0.6))
    assert metrics["valid_accuracy"] == 1


def test_the_validation_part_is_evaluated(tmp_path):
    rows = [f"{'C' * (i % 7 + 1)}{'O' * (i % 3)},{i * i}" for i in range(20)]
    path = tmp_path / "a.csv"
    path.write_text("smiles,value\n" + "\n".join(rows) + "\n")
    config = MoleculeConfig(
        data=str(path), target="value", hidden_size=4, depth=1, members=1,
        valid_fraction=0.2, test_fraction=0.2,
    )  # fmt: skip
    data = prepare(config)
    model = build_model(config, data.targets).eval()
    metrics = training_task(config, data).evaluate(model, lambda: None)
    wanted = validation(data.targets, outputs_of(model, data.valid.graphs), data.valid.values)
    assert metrics == wanted
    other = validation(data.targets, outputs_of(model, data.test.graphs), data.test.values)
    assert other != wanted  # so that no other part passes
