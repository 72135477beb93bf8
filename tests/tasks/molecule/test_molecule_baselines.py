"""The settings of the kernel baseline are selected on the validation part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rdkit")
pytest.importorskip("torch_geometric")

from representer.tasks.molecule import no_structure, subtree_ridge
from representer.tasks.objects import Objects, divided

FRACTIONS = {"valid": 0.3, "test": 0.2}


def objects(smiles: list[str], labels: list[tuple[str, ...]], names: tuple[str, ...]) -> Objects:
    return Objects("toy", "toy", smiles, labels, range(len(smiles)), targets=names)


def test_the_validation_part_selects_depth_and_penalty():
    """Targets are noise in training; predictions near 0 or far from it depend on validation."""
    rng = np.random.default_rng(0)
    smiles = ["".join(rng.choice(list("CNO"), size=rng.integers(3, 9))) for _ in range(60)]
    labels = [(f"{value:.3f}",) for value in rng.normal(size=60)]
    main = objects(smiles, labels, ("value",))
    data = divided({"all": main}, FRACTIONS, 0, is_regression=True)
    fitted = subtree_ridge(data).predictions
    # validation molecules that repeat the training part favor the smallest penalty
    same = replace(
        data,
        parts=data.parts | {"valid": data.parts["train"]},
        values=data.values | {"valid": data.values["train"]},
    )
    assert fitted.std() < 0.5 * subtree_ridge(same).predictions.std()


def test_the_constant_baseline_uses_the_known_values_of_the_training_part():
    labels = [(str(i), "ab"[i % 2] if i % 3 else "") for i in range(30)]
    main = objects(["C"] * 30, labels, ("n", "c"))
    classes = [(label,) for _, label in labels if label]
    data = divided(
        {"all": objects(["C"] * len(classes), classes, ("c",))}, FRACTIONS, 0, is_regression=False
    )
    shares = np.bincount(data.values["train"]) / len(data.values["train"])
    np.testing.assert_allclose(no_structure(data).probabilities[0][0], shares)
    numbers = replace(main, labels=[(n, "" if c else n) for n, c in labels])
    data = divided({"all": numbers}, FRACTIONS, 0, is_regression=True)
    expected = np.nanmean(data.values["train"], axis=0)
    np.testing.assert_allclose(no_structure(data).predictions[0], expected)
    assert np.isnan(data.values["train"]).any()
