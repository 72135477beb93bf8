"""The scripts of the pages on texts: explanations beside ours, tables of accuracies."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

WORDS = ["good", "not", "film", "dull"]
EFFECTS = np.array([2.0, -1.0, 0.5, -3.0])


@pytest.fixture
def faithfulness(bench) -> ModuleType:
    return bench("faithfulness")


@pytest.fixture
def texts(bench) -> ModuleType:
    return bench("texts")


def additive(texts: list[list[str]]) -> np.ndarray:
    """Return a score that is a sum over words."""
    worth = dict(zip(WORDS, EFFECTS, strict=True))
    return np.array([sum(worth[word] for word in words) for words in texts])


def test_shap_and_lime_find_the_words_of_a_sum(faithfulness):
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(faithfulness.shap(WORDS, additive, rng), EFFECTS, atol=1e-12)
    found = faithfulness.lime(WORDS, additive, rng)
    assert np.argsort(found).tolist() == np.argsort(EFFECTS).tolist()


def test_deletion_in_the_order_of_the_contributions_takes_most(faithfulness):
    class Model:
        def predict_proba(self, texts):
            chances = 1 / (1 + np.exp(-additive([text.split() for text in texts])))
            return np.stack([1 - chances, chances], 1)

    best = faithfulness.deletion(WORDS, np.argsort(-EFFECTS), Model(), 1)
    worst = faithfulness.deletion(WORDS, np.argsort(EFFECTS), Model(), 1)
    assert best < worst


def test_a_row_has_the_difference_to_one_of_the_models(texts):
    splits = {"a": [{"x": ([1, 1, 1, 0], 2.0), "y": ([1, 0, 0, 0], 4.0)}],
              "b": [{"x": ([1, 1, 1, 1], 2.0), "y": ([1, 1, 0, 0], 4.0)}]}  # fmt: skip
    head, first, _, mean, seconds = texts.rows_of(splits, "y")
    assert head == ["set", "x", "y"]
    assert first[1].startswith("75.00 ±")
    assert mean[1].startswith("+50.00 ±")
    assert seconds[1:] == ["2.0", "4.0"]
