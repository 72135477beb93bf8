"""`sample_weight` and `class_weight`: in the losses, the kernel machine and the network."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from representer.errors import ArgumentError, DataError
from representer.estimators import TextClassifier, TextRegressor
from representer.estimators.linear_models import solver
from representer.estimators.pool import Pool
from representer.estimators.targets import Classes, ClassTable, Numbers, example_weights

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


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "X has 60 rows and sample_weight has 1"),
        ([*WEIGHTS[:-1], -1.0], r"sample_weight\[59\] is -1.*non-negative"),
        ([*WEIGHTS[:-1], np.nan], r"sample_weight\[59\] is nan"),
        ([0.0] * 60, r"sample_weight\[0\] is 0.*not all 0"),
    ],
)
def test_wrong_weights_are_named(weights, message):
    with pytest.raises(DataError, match=message):
        TextClassifier(**SMALL).fit(TEXTS, LABELS, sample_weight=weights)


def test_wrong_weights_of_classes_are_named():
    with pytest.raises(ArgumentError, match="class_weight is 'equal'; expected 'balanced'"):
        TextClassifier(**SMALL, class_weight="equal").fit(TEXTS, LABELS)
    with pytest.raises(DataError, match=r"class_weight\] is 'other'; the classes are"):
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
