from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from representer.data.text import Vocabulary, WordVectors
from representer.errors import ArgumentError, ShapeError

VECTORS = WordVectors(
    ("cat", "Paris", "NATO", "Cat", "dog"), np.arange(10.0, dtype=np.float32).reshape(5, 2)
)


def vocabulary(*words: str) -> Vocabulary:
    return Vocabulary(("<pad>", "<unk>", *words))


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def test_a_word_uses_its_vector_or_that_of_another_case():
    words = vocabulary("cat", "Cat", "CAT", "paris", "nato", "bird")
    matrix, coverage = VECTORS.align(words, generator())
    expected = VECTORS.matrix[[0, 3, 0, 1, 2]]
    torch.testing.assert_close(matrix[2:7], torch.from_numpy(expected), rtol=0, atol=0)
    assert (coverage.found, coverage.total, coverage.by_case) == (5, 6, 3)
    assert str(coverage) == (
        "5 of 6 words (83.3%) have a vector, 3 of them in another case; the others are random"
    )


def test_padding_is_zero_and_other_words_are_random_within_the_scale():
    words = vocabulary(*(f"word{i}" for i in range(1000)))
    matrix, coverage = VECTORS.align(words, generator(), scale=0.5)
    assert matrix[0].abs().max() == 0
    assert matrix[1].abs().min() > 0
    assert 0.49 < matrix.abs().max() <= 0.5
    assert abs(matrix.mean()) < 0.03
    assert coverage.types == 0
    assert matrix.dtype == torch.float32


def test_random_rows_do_not_depend_on_the_words_found():
    words = vocabulary("cat", "bird")
    with_cat, _ = VECTORS.align(words, generator())
    without, _ = WordVectors(("dog",), np.ones((1, 2), np.float32)).align(words, generator())
    torch.testing.assert_close(with_cat[3], without[3], rtol=0, atol=0)


def test_coverage_can_be_weighted_by_frequency():
    _, coverage = VECTORS.align(vocabulary("cat", "bird"), generator())
    counts = Counter({"cat": 3, "bird": 1, "not in the vocabulary": 4})
    assert coverage.running(counts) == 3 / 8
    assert coverage.running(Counter()) == 0
    assert coverage.types == 1 / 2


def test_a_matrix_of_another_length_is_rejected():
    with pytest.raises(ShapeError, match=r"shape \(3, 2\); expected \(2, dimensions\)"):
        WordVectors(("a", "b"), np.zeros((3, 2), np.float32))


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
def test_an_invalid_scale_is_rejected(scale):
    with pytest.raises(ArgumentError, match="scale"):
        VECTORS.align(vocabulary("a"), generator(), scale=scale)
