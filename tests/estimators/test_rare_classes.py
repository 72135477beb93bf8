"""Factor and offsets of the scores of classes: a rare class is answered."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, log_softmax

from representer.estimators import SequenceClassifier
from representer.estimators.calibration import answered, factor_and_offsets
from representer.estimators.kernel_machine import KernelMachine
from representer.estimators.linear_models import CentroidCoefficients, is_ahead


def planted(count: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Return scores whose rare class is never the largest, and the classes."""
    rng = np.random.default_rng(0)
    logits = rng.normal(-3, 2, count)  # of the second class
    values = (rng.uniform(size=count) < expit(logits)).astype(int)
    half = 0.5 * (logits - 6) / 4  # a = 4 and a difference of offsets of 6
    return np.stack([-half, half], axis=1), values


def machine_of(coefficients) -> KernelMachine:
    return KernelMachine(None, coefficients, np.array([0.5, -0.5]), 1.0)


def test_the_factor_and_the_offsets_are_those_that_were_planted():
    scores, values = planted()
    factor, offsets = factor_and_offsets(scores, values, np.ones(len(values)))
    assert factor == pytest.approx(4, rel=0.1)
    assert offsets[1] - offsets[0] == pytest.approx(6, rel=0.1)


def test_they_have_the_smallest_loss_of_weighted_objects():
    scores, values = planted(400)
    weights = 1.0 + 3 * values
    factor, offsets = factor_and_offsets(scores, values, weights)
    smoothing = 2 / 402
    truth = (1 - smoothing) * np.eye(2)[values] + smoothing / 2

    def loss(a, difference):
        b = np.array([-difference / 2, difference / 2])
        logs = log_softmax(a * scores + b, axis=1)
        return -np.average((truth * logs).sum(1), weights=weights) + b @ b / 800

    best = loss(factor, offsets[1] - offsets[0])
    for a in (0.97 * factor, 1.03 * factor):
        assert loss(a, offsets[1] - offsets[0]) > best
    for shift in (-0.1, 0.1):
        assert loss(factor, offsets[1] - offsets[0] + shift) > best


def test_a_class_that_does_not_occur_keeps_its_score():
    scores, values = planted(400)
    wider = np.insert(scores, 1, -50.0, axis=1)
    factor, offsets = factor_and_offsets(wider, 2 * values, np.ones(400))
    expected = factor_and_offsets(scores, values, np.ones(400))
    assert factor == pytest.approx(expected[0])
    np.testing.assert_allclose(offsets, [expected[1][0], 0, expected[1][1]])


@pytest.mark.parametrize("is_product", [False, True])
def test_the_scores_of_the_machine_change_as_those_held_out(is_product):
    scores, values = planted()
    weights = np.array([[1.0, 2.0], [-1.0, 0.5]])
    coefficients = weights
    if is_product:
        centroids = sparse.csr_matrix(np.eye(2))
        coefficients = CentroidCoefficients(weights.astype(np.float32), centroids)
    moments = scores, np.full_like(scores, 0.25)
    machine, (means, variances) = answered(machine_of(coefficients), moments, values, None)
    factor, offsets = factor_and_offsets(scores, values, np.ones(len(values)))
    np.testing.assert_allclose(means, factor * scores + offsets)
    np.testing.assert_allclose(variances, factor**2 * 0.25)
    changed = machine.coefficients
    changed = changed.combinations if is_product else changed
    np.testing.assert_allclose(changed, factor * weights, rtol=1e-6)
    np.testing.assert_allclose(machine.intercepts, factor * np.array([0.5, -0.5]) + offsets)
    assert means.argmax(1).sum() > 0.4 * values.sum()
    assert not moments[0].argmax(1).any()


def test_scores_that_are_right_as_often_stay():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, 300)
    half = rng.normal(2 * values - 1, 1)  # of which a factor makes the loss smaller
    moments = np.stack([-half, half], axis=1), np.zeros((300, 2))
    before = np.array([[1.0, 2.0], [-1.0, 0.5]])
    machine, after = answered(machine_of(before), moments, values, None)
    assert machine.coefficients is before
    assert after is moments


def test_weights_count_in_what_is_ahead():
    truth = np.array([1] * 10 + [0] * 30)
    ours, theirs = np.eye(2)[[1] * 20 + [0] * 20], np.eye(2)[[0] * 40]  # ten gained, ten lost
    assert not is_ahead(ours, theirs, truth)
    assert is_ahead(ours, theirs, truth, np.where(truth == 1, 5.0, 0.5))


def reads(count: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Return random reads, of which one in twenty has a motif."""
    rng, X = random.Random(seed), []
    for number in range(count):
        letters = rng.choices("ACGT", k=60)
        if number % 20 == 0:
            start = rng.randrange(50)
            letters[start : start + 8] = "TATAATGC"
        X.append("".join(letters))
    return X, np.array(["motif" if number % 20 == 0 else "none" for number in range(count)])


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_rare_motif_is_found(class_weight):
    model = SequenceClassifier(
        answer="kernel", class_weight=class_weight, random_state=0, verbose=0
    ).fit(*reads(600, 0))
    X, y = reads(600, 1)
    prediction, shares = model.predict(X), model.predict_proba(X)
    assert (prediction[y == "motif"] == "motif").mean() >= 0.9  # none before
    assert (prediction[y == "none"] == "motif").mean() <= 0.02
    if class_weight is None:
        assert shares[:, 0].mean() == pytest.approx(0.05, abs=0.01)
    explanation = model.explain(X[:1])[0]
    total = explanation.baseline + sum(part.contribution for part in explanation.contributions)
    assert total == pytest.approx(explanation.score, abs=1e-6)
