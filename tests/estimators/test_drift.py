"""Two sets compared by the kernel of an estimator."""

from __future__ import annotations

import numpy as np
import pytest
from tests.estimators.test_signal import RATE, windows

from representer.estimators import MoleculeRegressor, SignalClassifier, TextClassifier
from representer.tasks import drift
from representer.tasks.drift import compare_sets

WORDS = ["red", "blue", "green", "cat", "dog", "runs", "sits"]
RNG = np.random.default_rng(0)
SETS = {
    "texts": (
        TextClassifier(),
        [[" ".join(RNG.choice(WORDS[:most], 6)) for _ in range(12)] for most in (5, 7)],
    ),
    "molecules": (MoleculeRegressor(), [["C" * n for n in (2, 3, 4)], ["CO", "CCO", "CCCO"]]),
    "signals": (SignalClassifier(sampling_rate=RATE), [windows(seed=k)[0][:10] for k in (0, 1)]),
}


@pytest.mark.parametrize("name", SETS)
def test_differences_sum_to_the_squared_distance_of_the_means(name):
    estimator, (first, second) = SETS[name]
    found = compare_sets(estimator, first, second, permutations=9, seed=0)
    n, m = len(first), len(second)
    # the witness is the inner product with the difference of the means
    distance = found.test.witness[n:].mean() - found.test.witness[:n].mean()
    assert sum(one.summand for one in found.differences) == pytest.approx(distance, rel=1e-6)
    assert found.test.witness.shape == (n + m,)
    sizes = [abs(one.summand) for one in found.differences]
    assert sizes == sorted(sizes, reverse=True)


def test_what_one_set_alone_has_comes_first():
    texts = ["a red cat"] * 5, ["a blue cat"] * 5
    found = compare_sets(TextClassifier(), *texts, permutations=99, seed=0)
    named = {one.what: one for one in found.differences}
    assert (named["blue"].first, named["blue"].second) == pytest.approx((0, 1))
    assert (named["red"].first, named["red"].second) == pytest.approx((1, 0))
    assert named["blue"].summand > 0 < named["red"].summand
    assert found.test.p_value < 0.05


def test_differences_at_the_end_of_a_file_are_found(monkeypatch):
    monkeypatch.setattr(drift, "EXPLAINED", 4)
    second = ["a red cat"] * 6 + ["a blue cat"] * 6
    found = compare_sets(TextClassifier(), ["a red cat"] * 12, second, permutations=9, seed=0)
    blue = next(one for one in found.differences if one.what == "blue")
    assert (blue.first, blue.second) == pytest.approx((0, 0.5))
