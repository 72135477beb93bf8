"""Softmax regression on sparse and on dense features, and ridge regression of classes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

from representer.errors import ArgumentError, DataError
from representer.estimators import TextClassifier, TextRegressor, kernel_machine, linear_models
from representer.estimators.halves import Pool
from representer.estimators.kernel_machine import select
from representer.estimators.label_sets import LabelSets
from representer.estimators.linear_models import SoftmaxRegression, solver
from representer.estimators.targets import (
    Classes,
    ClassTable,
    Numbers,
    example_weights,
    splits_of,
)
from representer.kernels.text_kernel import TextKernel


def problem(classes: int, seed: int = 0) -> tuple[sparse.csr_array, np.ndarray]:
    """Return features of 120 examples, of which one has none, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((120, 40)) * (rng.random((120, 40)) < 0.2)
    scores = 2 * x @ rng.standard_normal((40, classes)) + rng.gumbel(size=(120, classes))
    x[7] = 0
    return sparse.csr_array(x), scores.argmax(1)


def gradient(
    x: sparse.csr_array, labels: np.ndarray, penalty: float, w: np.ndarray, b: np.ndarray
) -> float:
    """Return the norm of the gradient of the objective, divided by C."""
    scores = x @ w.T + b
    chances = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    residuals = chances - np.eye(len(b))[labels]
    slopes = (x.T @ residuals).T + w / penalty
    return float(np.sqrt((slopes**2).sum() + (residuals.sum(0) ** 2).sum()))


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_gradient_vanishes_for_one_penalty_after_another(classes):
    """Up to the precision, and float32; the penalties go up and down."""
    x, labels = problem(classes)
    model = SoftmaxRegression(x, labels)
    at_zero = np.zeros((classes, 40)), np.zeros(classes)
    first = np.linalg.norm(x.T @ (1 / classes - np.eye(classes)[labels]))
    assert gradient(x, labels, 1.0, *at_zero) >= first
    for penalty in (0.1, 1.0, 100.0, 3.0):
        solution = model.fit(penalty)
        assert gradient(x, labels, penalty, *solution) < 1.01 * linear_models.PRECISION * first


def test_dense_features_have_a_more_precise_solution():
    x, labels = problem(3)
    solution = SoftmaxRegression(x.toarray(), labels).fit(3.0)
    first = np.linalg.norm(x.T @ (1 / 3 - np.eye(3)[labels]))
    allowed = linear_models.DENSE_PRECISION * first
    assert gradient(x, labels, 3.0, *solution) < 1.01 * allowed


@pytest.mark.parametrize("as_given", [sparse.csr_array, np.asarray])
@pytest.mark.parametrize("size", [1.0, 1e-12])
def test_features_that_tell_nothing_take_few_steps(as_given, size, monkeypatch):
    """Their gradient is 0 but for rounding, of which no fraction can be reached."""
    x = size * np.tile(np.random.default_rng(0).standard_normal((10, 30)), (3, 1))
    model, steps = SoftmaxRegression(as_given(x), np.repeat([0, 1, 2], 10)), []
    newton_step = model._newton_step
    monkeypatch.setattr(model, "_newton_step", lambda *a: (steps.append(1), newton_step(*a))[1])
    coefficients, intercepts = model.fit(100.0)
    assert len(steps) <= 2
    np.testing.assert_allclose(coefficients, 0, atol=1e-3)
    np.testing.assert_allclose(intercepts, 0, atol=1e-6)


@pytest.mark.parametrize("classes", [3, 4])
def test_it_is_the_logistic_regression_of_scikit_learn(classes, monkeypatch):
    monkeypatch.setattr(linear_models, "PRECISION", 1e-5)  # what float32 allows
    x, labels = problem(classes)
    coefficients, intercepts = SoftmaxRegression(x, labels).fit(2.0)
    expected = LogisticRegression(C=2.0, tol=1e-8, max_iter=5000).fit(x, labels)
    np.testing.assert_allclose(coefficients, expected.coef_, atol=2e-4)
    centered = intercepts - intercepts.mean()  # a constant in all of them changes nothing
    np.testing.assert_allclose(
        centered, expected.intercept_ - expected.intercept_.mean(), atol=2e-4
    )


def test_a_solution_takes_few_products_with_the_features(monkeypatch):
    """54 with the Hessian of the objective, 80 without that of the penalty."""
    x, labels = problem(3)
    model, products = SoftmaxRegression(x, labels), []
    slopes = model._slopes
    monkeypatch.setattr(model, "_slopes", lambda r: (products.append(1), slopes(r))[1])
    for penalty in (1.0, 3.0, 10.0):
        model.fit(penalty)
    assert len(products) < 65, len(products)


def test_classes_that_a_hyperplane_separates_have_a_solution():
    x = sparse.csr_array(np.eye(6)[[0, 1, 2, 3] * 5])
    labels = np.array([0, 0, 1, 2] * 5)
    coefficients, intercepts = SoftmaxRegression(x, labels).fit(1e6)
    scores = x @ coefficients.T + intercepts
    assert (scores.argmax(1) == labels).all()
    assert np.isfinite(coefficients).all()
    np.testing.assert_array_equal(coefficients[:, 4:], 0)  # features that no example has


def test_without_features_the_chances_are_the_frequencies():
    labels = np.array([0, 1, 1, 2] * 5)
    coefficients, intercepts = SoftmaxRegression(sparse.csr_array((20, 0)), labels).fit(1.0)
    assert coefficients.shape == (3, 0)
    chances = np.exp(intercepts) / np.exp(intercepts).sum()
    np.testing.assert_allclose(chances, [0.25, 0.5, 0.25], atol=0.01)  # of the precision


def test_the_loss_falls_with_each_step_where_most_examples_have_no_features():
    """Chances of 0 and 1 leave a Hessian of next to nothing, and with it huge Newton steps."""
    rng = np.random.default_rng(7)
    rng.choice(3), rng.choice(2), rng.choice(2)  # the first draws of this seed give another case
    rare = np.where(rng.random(250) < 0.9, rng.integers(0, 2, 250), rng.integers(0, 20, 250))
    labels = np.unique(rare, return_inverse=True)[1]
    x = 10.0 ** rng.integers(0, 6) * rng.standard_normal((250, 30))
    x *= rng.random((250, 30)) < rng.choice([0.01, 0.02, 0.05])
    x = x[rng.integers(0, 83, 250)]
    model, losses = SoftmaxRegression(sparse.csr_array(x), labels), []
    newton_step = model._newton_step

    def recorded(*arguments):
        losses.append(model._loss(model._weights, 1.0))
        return newton_step(*arguments)

    model._newton_step = recorded
    w, b = model.fit(1.0)
    losses.append(model._loss(model._weights, 1.0))
    assert np.isfinite([w.sum(), b.sum()]).all()
    assert (np.diff(losses) <= 0).all()
    assert losses[-1] < losses[0] / 2  # with steps that are not halved enough, 0.85 of it


@pytest.mark.parametrize("answer", [np.nan, -1.0, 0.0])
def test_a_step_that_rounding_spoils_is_not_taken(answer, monkeypatch):
    """Then float64 goes on from the best weights, and ends there if it finds no better ones."""
    x, labels = problem(3)
    model, before = SoftmaxRegression(x, labels), linear_models._dot
    monkeypatch.setattr(
        linear_models, "_dot",
        lambda a, b: before(a, b) if a is b or b[0].dtype == torch.float64 else answer,
    )  # fmt: skip
    w, b = model.fit(1.0)
    assert gradient(x, labels, 1.0, w, b) < 1.01 * linear_models.PRECISION * np.linalg.norm(
        x.T @ (1 / 3 - np.eye(3)[labels])
    )


def test_scores_of_least_squares_are_scaled_by_those_of_each_object_without_itself():
    x, labels = (part[:40] for part in problem(3))
    x, targets, rows = x.toarray(), 2 * np.eye(3)[labels] - 1, np.arange(40)
    coefficients, intercepts = solver(Classes(("a", "b", "c")), x, labels, by_squares=True)(3.0)
    whole = Ridge(1 / 6).fit(x, targets)
    scale = coefficients[0, 0] / whole.coef_[0, 0]
    np.testing.assert_allclose(coefficients, scale * whole.coef_)
    np.testing.assert_allclose(intercepts, scale * whole.intercept_)
    scores = np.concatenate(
        [Ridge(1 / 6).fit(x[rows != i], targets[rows != i]).predict(x[[i]]) for i in rows]
    )
    smooth = np.eye(3)[labels] * 40 / 43 + 1 / 43

    def loss(factor: float) -> float:
        scaled = factor * scores
        return (np.logaddexp.reduce(scaled, axis=1) - (smooth * scaled).sum(1)).sum()

    assert loss(scale) < min(loss(0.8 * scale), loss(1.25 * scale))


def test_least_squares_of_separable_classes_have_finite_logits_and_weights_are_copies():
    x, labels, counts = np.eye(6), np.arange(6) % 2, np.array([1, 2, 1, 3, 1, 1])
    target = Classes(("a", "b"))
    coefficients, _ = solver(target, x, labels, by_squares=True)(1e4)
    assert 0 < np.abs(coefficients).max() < 1000
    weighted = solver(target, x, labels, counts[:, None].astype(float), by_squares=True)(3.0)
    rows = np.repeat(np.arange(6), counts)
    copied = solver(target, x[rows], labels[rows], by_squares=True)(3.0)
    scales = [own[0] / np.linalg.norm(own[0]) for own in (weighted, copied)]
    np.testing.assert_allclose(*scales)


# `sample_weight` and `class_weight`: in the losses, the kernel machine and the network.


TEXTS = [f"{a} {b}" for a in ("good", "bad") for b in ("film", "play", "song")] * 10
RNG = np.random.default_rng(0)
# a fifth of the labels of "bad" are wrong, and classes are of unequal size
LABELS = ["+" if t.startswith("good") or RNG.random() < 0.3 else "-" for t in TEXTS]
WEIGHTS = [9.0 if label == "-" else 1.0 for label in LABELS]
SMALL = {"hidden_size": 4, "embedding_size": 4, "random_state": 0, "verbose": 0, "epochs": 3}
X, COUNTS = RNG.normal(size=(30, 4)), RNG.integers(0, 4, 30)


@pytest.mark.parametrize(
    ("target", "values"),
    [
        (Classes(("a", "b", "c")), RNG.integers(0, 3, 30)),
        (Numbers((0.5,), (2.0,)), RNG.normal(size=(30, 1))),
    ],
    ids=["classes", "numbers"],
)
def test_a_weight_of_an_object_is_its_number_of_copies(target, values):
    weighted = solver(target, X, values, COUNTS[:, None].astype(float))(3.0)
    rows = np.repeat(np.arange(30), COUNTS)
    copied = solver(target, X[rows], values[rows])(3.0)
    for a, b in zip(weighted, copied, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)  # Newton's method stops at a gradient of 1e-5

    outputs, loss = torch.from_numpy(RNG.normal(size=(30, target.width))), target.loss
    counts = torch.from_numpy(COUNTS[:, None] / COUNTS.mean())
    ours = loss(outputs, torch.from_numpy(values), counts)
    theirs = loss(outputs[rows], torch.from_numpy(values[rows]))
    torch.testing.assert_close(ours, theirs)
    metrics = target.metrics(outputs.numpy(), values, COUNTS[:, None].astype(float))
    assert metrics == pytest.approx(target.metrics(outputs.numpy()[rows], values[rows]))


def test_weights_of_a_table_count_where_labels_are_known():
    table = ClassTable((Classes(("a", "b")), Classes(("c", "d"))))
    values = np.array([[0, 1], [np.nan, 0], [1, 0], [1, np.nan]])
    weights = example_weights(table, values, "balanced", None)
    # one of three known labels is "a": its weight is 3/2, that of both "b" 3/4
    np.testing.assert_allclose(weights[[0, 2, 3], 0], [1.5, 0.75, 0.75])
    np.testing.assert_allclose(weights[:3, 1], [1.5, 0.75, 0.75])
    outputs = torch.from_numpy(RNG.normal(size=(4, 4)))
    losses = [
        -outputs[row, 2 * k : 2 * k + 2].log_softmax(0)[int(values[row, k])] * weights[row, k]
        for row, k in np.argwhere(~np.isnan(values))
    ]
    ours = table.loss(outputs, torch.from_numpy(values), torch.from_numpy(weights))
    torch.testing.assert_close(ours, sum(losses) / 6)


@pytest.mark.parametrize("answer", ["kernel", "network"])
def test_a_weight_of_a_class_is_that_of_its_examples(answer):
    options = SMALL | {"answer": answer}
    plain = TextClassifier(**options).fit(TEXTS, LABELS)
    by_class = TextClassifier(**options, class_weight={"-": 9.0}).fit(TEXTS, LABELS)
    by_example = TextClassifier(**options).fit(TEXTS, LABELS, sample_weight=WEIGHTS)
    np.testing.assert_allclose(
        by_class.predict_proba(TEXTS), by_example.predict_proba(TEXTS), atol=1e-6
    )  # weights are normalized before the split or after it
    assert (by_class.predict_proba(TEXTS)[:, 1] > plain.predict_proba(TEXTS)[:, 1] + 1e-3).all()
    even = TextClassifier(**options).fit(TEXTS, LABELS, sample_weight=[2.0] * len(TEXTS))
    np.testing.assert_allclose(even.predict_proba(TEXTS), plain.predict_proba(TEXTS), atol=1e-6)


def test_numbers_with_larger_weights_are_fitted_more_closely():
    y = np.array([float(label == "-") for label in LABELS])
    model = TextRegressor(**SMALL | {"answer": "kernel"}).fit(TEXTS, y, sample_weight=WEIGHTS)
    plain = TextRegressor(**SMALL | {"answer": "kernel"}).fit(TEXTS, y)
    assert (model.predict(["bad film", "bad play"]) > plain.predict(["bad film", "bad play"])).all()


@pytest.mark.parametrize(("weights", "message"), [
    ([1.0], "X has 60 rows and sample_weight has 1"),
    ([*WEIGHTS[:-1], -1.0], r"sample_weight\[59\] is -1.*non-negative"),
    ([*WEIGHTS[:-1], np.nan], r"sample_weight\[59\] is nan"),
    ([0.0] * 60, r"sample_weight\[0\] is 0.*not all 0"),
])  # fmt: skip
def test_wrong_weights_are_named(weights, message):
    with pytest.raises(DataError, match=message):
        TextClassifier(**SMALL).fit(TEXTS, LABELS, sample_weight=weights)


def test_wrong_weights_of_classes_are_named():
    with pytest.raises(ArgumentError, match="class_weight is 'equal'; expected 'balanced'"):
        TextClassifier(**SMALL, class_weight="equal").fit(TEXTS, LABELS)
    with pytest.raises(ArgumentError, match="expected weights of the classes '\\+', '-'"):
        TextClassifier(**SMALL, class_weight={"other": 2.0}).fit(TEXTS, LABELS)
    with pytest.raises(ArgumentError, match="numbers have no classes"):
        TextRegressor(**SMALL, class_weight="balanced").fit(TEXTS, np.arange(60.0))


def test_the_stack_weighs_its_losses(monkeypatch):
    seen = []
    for name in ("fit", "cautious", "unvalidated"):
        real = getattr(Pool, name)
        spy = lambda target, *a, real=real: (seen.append(target), real(target, *a))[1]  # noqa: E731
        monkeypatch.setattr(Pool, name, spy)
    model = TextClassifier(**SMALL)
    model.fit(TEXTS, LABELS, sample_weight=WEIGHTS)
    sizes = np.unique(seen[0].weights)
    assert sizes[-1] / sizes[0] == pytest.approx(9)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_ridge_regression_by_inner_products_is_that_by_features(is_weighted):
    x, labels = problem(3)
    signs = 2 * np.eye(3)[labels] - 1
    weights = 0.5 + (np.arange(120) % 3)[:, None] if is_weighted else None
    by_features = linear_models.ridge_path(x.toarray(), signs, weights)
    by_products = linear_models.ridge_path(x, signs, weights)
    for penalty in (0.01, 1.0, 100.0):
        for one, other in zip(by_features(penalty), by_products(penalty), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-9)


class Rows(TextKernel):
    """Rows of a matrix by their numbers."""

    def __init__(self, x: sparse.csr_array) -> None:
        super().__init__()
        self.x = x

    def fit_transform(self, X, targets=None):
        return self.x[[int(row) for row in X]]

    transform = fit_transform


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2, 120)[:, None]])
def test_folds_of_large_features_share_them_and_choose_the_same(monkeypatch, weights):
    x, labels = problem(3)
    objects, target = [str(row) for row in range(120)], Classes((0, 1, 2))

    splits = splits_of(target, labels, np.arange(120) % 12).folds()
    train, made = (objects, labels), []
    tensor = linear_models._tensor
    monkeypatch.setattr(linear_models, "_tensor", lambda m: made.append(m.shape) or tensor(m))
    copied = select([Rows(x)], target, train, ([], labels[:0]), splits, weights=weights)
    assert len(made) == 10
    monkeypatch.setattr(kernel_machine, "LARGE", 0)
    shared = select([Rows(x)], target, train, ([], labels[:0]), splits, weights=weights)
    assert made[10:] == [(120, 40), (40, 120)]
    assert shared.penalty == copied.penalty
    assert shared.loss == pytest.approx(copied.loss, rel=1e-3)
    np.testing.assert_allclose(shared.scores, copied.scores, atol=0.05)


def test_folds_without_objects_of_a_class_do_not_share_features(monkeypatch):
    x, labels = problem(3)
    objects, target, made = [str(row) for row in range(120)], Classes((0, 1, 2)), []
    splits = splits_of(target, labels, labels * 4 + np.arange(120) % 4 * (labels < 2)).folds()
    tensor = linear_models._tensor
    monkeypatch.setattr(kernel_machine, "LARGE", 0)
    monkeypatch.setattr(linear_models, "_tensor", lambda m: made.append(m.shape) or tensor(m))
    chosen = select([Rows(x)], target, (objects, labels), ([], labels[:0]), splits)
    assert len(made) == 2 * len(splits)
    assert (chosen.scores[labels == 2, 2] < chosen.scores[labels == 2, :2].min(1)).all()


def test_as_many_entries_as_no_small_index_counts_have_large_ones():
    x, _ = problem(3)

    arrays = {name: getattr(x, name) for name in ("indptr", "indices", "data", "shape")}
    huge, small = (linear_models._tensor(SimpleNamespace(**arrays, nnz=n)) for n in (2**31, x.nnz))
    assert (huge.crow_indices().dtype, huge.col_indices().dtype) == (torch.int64, torch.int64)
    right = torch.ones(40, 2)
    torch.testing.assert_close(huge @ right, small @ right)


def test_labels_of_several_are_fitted_to_the_same_tensors(monkeypatch):
    x, labels = problem(3)
    made, tensor = [], linear_models._tensor
    monkeypatch.setattr(linear_models, "_tensor", lambda m: made.append(m.shape) or tensor(m))
    target = LabelSets(("a", "b", "c"), is_table=False)
    solver(target, x, np.eye(3)[labels])(1.0)
    assert made == [(120, 40), (40, 120)]
