"""The weights of kernel and network: the better half is never dropped for a worse one."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from representer.estimators.pool import Pool
from representer.estimators.targets import Classes, Numbers, Weighted

HALVES = {
    "perfect": lambda right, rng: right + 0.1 * rng.standard_normal(right.shape),
    "noisy": lambda right, rng: right + 2 * rng.standard_normal(right.shape),
    "constant": lambda right, rng: np.full(right.shape, 0.5),
    "reversed": lambda right, rng: -right,
    "minute": lambda right, rng: 1e-9 * right,
    "diverged": lambda right, rng: 1e8 * rng.standard_normal(right.shape),
    "one outlier": lambda right, rng: (
        np.where(np.arange(len(right))[:, None] == 3, -1e9, 1) * right
    ),
}


def planted(kind: str, count: int, seed: int = 0):
    """Return a target, its values, and the scores that are right."""
    rng = np.random.default_rng(seed)
    if kind == "numbers":
        values = rng.normal(7, 3, (count, 1))
        return Numbers((7.0,), (3.0,)), values, (values - 7) / 3
    classes = 2 if kind == "two classes" else 5
    values = np.arange(count) % classes
    return Classes(tuple(range(classes))), values, 5 * np.eye(classes)[values]


@pytest.mark.parametrize(
    ("kind", "count"), [("two classes", 60), ("five classes", 7), ("numbers", 60)]
)
@pytest.mark.parametrize("find", [Pool.fit, Pool.unvalidated])
def test_the_stack_is_never_worse_than_its_better_half(kind, count, find):
    """Of halves that no object trained; without held-out objects, the kernel alone is such a one"""
    target, values, right = planted(kind, count)
    rng = np.random.default_rng(1)
    halves = {name: make(right, rng) for name, make in HALVES.items()}
    for first, second in permutations(halves, 2):
        kernel, network = halves[first], halves[second]
        pool = find(target, kernel, network, values)
        pool.check()
        alone = [pool.kernel_loss, pool.network_loss][: 2 if find == Pool.fit else 1]
        assert pool.loss <= min(alone), (first, second)
        stacked = target.metrics(pool.scores(kernel, network), values)["valid_loss"]
        assert stacked == pytest.approx(pool.loss), (first, second)


@pytest.mark.parametrize("kind", ["two classes", "five classes", "numbers"])
@pytest.mark.parametrize("other", ["diverged", "constant", "reversed"])
def test_a_half_that_is_right_carries_the_prediction_beside_one_that_tells_nothing(kind, other):
    target, values, right = planted(kind, 40)
    good = HALVES["perfect"](right, np.random.default_rng(1))
    bad = HALVES[other](right, np.random.default_rng(2))
    assert Pool.fit(target, good, bad, values).share > 0.95
    assert Pool.fit(target, bad, good, values).share < 0.05


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3, 1e6])
def test_two_halves_are_both_kept_whatever_the_scale_of_one(size):
    target, values, right = planted("five classes", 400)
    rng = np.random.default_rng(0)
    kernel, network = (right + 3 * rng.standard_normal(right.shape) for _ in range(2))
    expected = Pool.fit(target, kernel, network, values)
    pool = Pool.fit(target, kernel, size * network, values)
    assert pool.share == pytest.approx(expected.share, abs=0.15)
    assert pool.loss == pytest.approx(expected.loss, rel=0.1)
    assert 0.3 < expected.share < 0.7


def test_the_prior_of_equal_weights_yields_to_the_better_half():
    """With 4 examples' worth of it, the loss of both would be above that of the kernel."""
    target, values, right = planted("two classes", 10)
    kernel = right + 0.1 * np.random.default_rng(0).standard_normal(right.shape)
    weak = right / 20 + np.random.default_rng(1).standard_normal(right.shape)
    pool = Pool.fit(target, kernel, weak, values)
    assert pool.loss <= pool.kernel_loss < pool.network_loss


@pytest.mark.parametrize("find", [Pool.fit, Pool.unvalidated])
def test_a_weight_of_an_object_is_its_number_of_copies_in_the_stack(find):
    rng = np.random.default_rng(0)
    target, values = Classes(("a", "b")), rng.integers(0, 2, 60)
    counts = rng.integers(1, 9, 60)
    kernel, network = (rng.normal(size=(60, 2)) + np.eye(2)[values] for _ in range(2))
    rows, weights = np.repeat(np.arange(60), counts), counts[:, None] / counts.mean()
    ours = find(Weighted(target, weights), kernel, network, values)
    theirs = find(target, kernel[rows], network[rows], values[rows])
    assert ours.kernel_loss == pytest.approx(theirs.kernel_loss)
    assert ours.network_loss == pytest.approx(theirs.network_loss)
    assert ours.loss != pytest.approx(find(target, kernel, network, values).loss, abs=1e-3)


@pytest.mark.parametrize("kind", ["two classes", "five classes"])
def test_on_few_objects_the_kernel_machine_is_trusted_more_than_an_equally_good_network(kind):
    target, values, right = planted(kind, 75)
    rng = np.random.default_rng(3)
    kernel, network = (right + 5 * rng.standard_normal(right.shape) for _ in range(2))
    equal, cautious = (f(target, kernel, network, values) for f in (Pool.fit, Pool.cautious))
    assert cautious.share > equal.share + 0.02
    cautious.check()
    assert cautious.loss == pytest.approx(
        target.metrics(cautious.scores(kernel, network), values)["valid_loss"]
    )


@pytest.mark.parametrize("other", ["constant", "reversed", "noisy"])
def test_on_few_objects_a_network_carries_the_prediction_beside_a_kernel_that_learned_nothing(
    other,
):
    target, values, right = planted("two classes", 75)
    kernel = HALVES[other](right, np.random.default_rng(4))
    pool = Pool.cautious(target, kernel, right, values)
    chances = target.probabilities(pool.scores(kernel, right))
    assert (chances.argmax(1) == values).mean() > 0.95
    reverse = Pool.cautious(target, right, kernel, values)
    assert reverse.share > 0.9
