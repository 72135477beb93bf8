"""The baselines of molecules: kernels of fingerprints, support vectors, forests."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rdkit")

from representer.tasks.molecule import (
    counts_and_descriptors,
    forest,
    minmax_gram,
    support_vectors,
    tanimoto_gram,
)

SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N")]
KINDS = np.array([one.endswith("O") for one in SMILES]).astype(np.int64)
TESTED = 4


def test_the_minmax_kernel_tells_counts_and_enantiomers_apart():
    gram = minmax_gram(["C[C@H](F)O", "C[C@@H](F)O", "CCC", "CCCC"])
    np.testing.assert_allclose(np.diag(gram), 1)
    assert gram[0, 1] < 1
    bits = tanimoto_gram(["C[C@H](F)O", "C[C@@H](F)O"])
    assert bits[0, 1] == 1
    assert minmax_gram(["CCCCCC", "CCCCCCCC"])[0, 1] < tanimoto_gram(["CCCCCC", "CCCCCCCC"])[0, 1]


def test_support_vectors_and_forests_learn_chances_of_all_classes():
    for fit, own in (
        (support_vectors, minmax_gram(SMILES)), (forest, counts_and_descriptors(SMILES)),
    ):  # fmt: skip
        found = fit(own, KINDS[:-TESTED], is_regression=False, width=3)
        assert found.shape == (TESTED, 3)
        np.testing.assert_allclose(found.sum(1), 1)
        assert (found.argmax(1) == KINDS[-TESTED:]).all()
        assert (found[:, 2] == 0).all()


def test_a_single_class_has_its_frequency():
    found = support_vectors(np.eye(6), np.zeros(4, np.int64), is_regression=False, width=2)
    assert (found == [1, 0]).all()
