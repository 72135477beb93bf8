"""Targets: missing values, units, classes, and what cannot be learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("rdkit")

from representer.data.molecules import MoleculeTable
from representer.errors import DataError
from representer.tasks.molecule.molecule_targets import Targets, find_targets


def table(*rows: tuple[str, ...]) -> MoleculeTable:
    names = tuple("ab"[: len(rows[0])])
    lines = list(range(2, len(rows) + 2))
    return MoleculeTable(["C"] * len(rows), list(rows), lines, "smiles", names, [], "f.csv", [])


def test_numbers_are_standardized_by_the_training_rows_alone():
    rows = table(("1", "10"), ("3", ""), ("100", "30"), ("", "20"))
    found = find_targets(rows, "regression", [0, 1, 3], standardize=True)
    assert found.means == (2, 15)
    assert found.scales == (1, 5)
    outputs = np.array([[[0.0, 1.0]]])
    assert found.in_unit(outputs).tolist() == [[[2, 20]]]
    assert find_targets(rows, "regression", [0, 1, 3], standardize=False).scales == (1, 1)


def test_a_missing_value_has_no_loss_and_no_gradient():
    targets = Targets(("a", "b"), (1.0, 0.0), (2.0, 1.0))
    values = torch.tensor([[3.0, float("nan")], [1.0, 4.0]])
    outputs = torch.full((2, 2, 2), 0.5, requires_grad=True)  # of two members
    loss = targets.loss(outputs, values)
    assert loss.item() == pytest.approx(2 * (0.5**2 + 0.5**2 + 3.5**2) / 3)
    loss.backward()
    assert outputs.grad is not None
    assert not outputs.grad[:, 0, 1].any()
    assert outputs.grad[:, 1, 1].all()


def test_the_loss_of_classes_is_the_cross_entropy_of_those_there_are():
    targets = Targets(("a", "b"), classes=(("x", "y"), ("p", "q", "r")))
    assert targets.widths == [2, 3]
    outputs = torch.randn(2, 3, 5)
    values = torch.tensor([[0.0, 2.0], [float("nan"), 1.0], [1.0, float("nan")]])
    total = sum(
        F.cross_entropy(o[[0, 2], :2], torch.tensor([0, 1]), reduction="sum")
        + F.cross_entropy(o[[0, 1], 2:], torch.tensor([2, 1]), reduction="sum")
        for o in outputs
    )
    torch.testing.assert_close(targets.loss(outputs, values), total / 4)
    chances = targets.probabilities(outputs.numpy())
    wanted = outputs[..., 2:].softmax(-1).mean(0)
    np.testing.assert_allclose(chances[1], wanted, rtol=1e-6)


def test_cells_become_numbers_of_classes():
    rows = table(("no", "1"), ("yes", ""), ("no", "0"))
    found = find_targets(rows, "classification", [0, 1, 2], standardize=True)
    assert found.classes == (("no", "yes"), ("0", "1"))
    np.testing.assert_array_equal(found.values(rows), [[0, 1], [1, np.nan], [0, 0]])
    with pytest.raises(
        DataError, match=r"line 2, column 'a': the label 'maybe' is not one of the 2"
    ):
        found.values(table(("maybe", "1")))
    assert Targets.from_dict(found.to_dict()) == found


@pytest.mark.parametrize(
    ("rows", "task", "message"),
    [
        ([("1",), ("1",), ("2",)], "regression", "column 'a': one value alone among the 2"),
        ([("",), ("",), ("2",)], "regression", "column 'a': no value among the 2"),
        ([("x",), ("x",), ("y",)], "classification", "column 'a': 1 class among the 2 molecules"),
        ([(f"{i}.5",) for i in range(60)], "classification", "60 different values of 60 are no"),
    ],
)
def test_a_target_with_nothing_to_learn_is_refused(rows, task, message):
    with pytest.raises(DataError, match=message):
        find_targets(table(*rows), task, [0, 1], standardize=True)
