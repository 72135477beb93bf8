"""The settings of the kernel baseline are selected on the validation part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rdkit")
pytest.importorskip("torch_geometric")

from representer.tasks.molecule.molecule_baselines import subtree_ridge
from representer.tasks.molecule.molecule_config import MoleculeConfig
from representer.tasks.molecule.molecule_data import prepare


def test_the_validation_part_selects_depth_and_penalty(tmp_path):
    """Targets are noise in training; predictions near 0 or far from it depend on validation."""
    rng = np.random.default_rng(0)
    smiles = ["".join(rng.choice(list("CNO"), size=rng.integers(3, 9))) for _ in range(60)]
    rows = [f"{s},{value:.3f}" for s, value in zip(smiles, rng.normal(size=60), strict=True)]
    path = tmp_path / "a.csv"
    path.write_text("smiles,value\n" + "\n".join(rows) + "\n")
    config = MoleculeConfig(data=str(path), target="value", valid_fraction=0.3, test_fraction=0.2)
    data = prepare(config)
    fitted = subtree_ridge(data).numbers
    # validation molecules that repeat the training part favor the smallest penalty
    memorized = subtree_ridge(replace(data, valid=data.train)).numbers
    assert fitted is not None
    assert memorized is not None
    assert fitted.std() < 0.5 * memorized.std()
