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


def test_a_row_has_the_paired_difference_to_the_kernel_and_the_mean_of_the_sets(texts):
    def draw(kernel: int, both: int) -> dict:
        rights = (kernel, 0, both)
        return {part: ([1] * n + [0] * (10 - n), 1.0)
                for part, n in zip(texts.PARTS, rights, strict=True)}  # fmt: skip

    results = {("a", 150): [draw(5, 6), draw(7, 8)], ("b", 150): [draw(5, 8), draw(5, 4)]}
    first, second, mean = texts.few_rows(results)
    assert first == ["a", "150", "60.00", "0.00", "70.00", "+10.00, +10.00 to +10.00", "2"]
    # Student's t with one degree of freedom, of differences 30 and -10, of means 20 and 0
    assert second[-2] == f"+10.00, {10 - 12.7062 * 20:+.2f} to {10 + 12.7062 * 20:+.2f}"
    assert mean[:2] == ["mean", "150"]
    assert mean[-2] == f"+10.00, {10 - 12.7062 * 10:+.2f} to {10 + 12.7062 * 10:+.2f}"
