"""Kernels as transformers of scikit-learn, with its checks of estimators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils import estimator_checks

from representer.errors import ArgumentError, KindError
from representer.kernels import (
    Gaussian,
    GramTransformer,
    NgramKernel,
    Nystroem,
    Polynomial,
    StringKernel,
    TextKernel,
)

WORDS = ["abcab", "ab", "", "cabca", "bb", "acacab"] * 4


TRANSFORMERS = [GramTransformer, Nystroem]
WITHOUT_DATA = [  # checks of scikit-learn without 2-D data
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_estimator_tags_renamed,
    estimator_checks.check_mixin_order,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_valid_tag_types,
]


@pytest.mark.suite
@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_scikit_learn_estimator_checks_pass_with_kernels_of_vectors(transformer):
    results = estimator_checks.check_estimator(transformer(Gaussian()), on_skip=None)
    assert len(results) > 40
    others = {result["check_name"] for result in results if result["status"] != "passed"}
    assert others <= {"check_array_api_input"}  # requires an environment variable


@pytest.mark.suite
@pytest.mark.parametrize("check", WITHOUT_DATA)
@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_scikit_learn_estimator_checks_pass_with_kernels_of_sequences(transformer, check):
    """The tags declare that the input is not 2-D, so scikit-learn's 2-D data are skipped."""
    tags = transformer(StringKernel()).__sklearn_tags__()
    assert tags.no_validation
    assert not tags.input_tags.two_d_array
    check(transformer.__name__, transformer(StringKernel()))


def test_transform_returns_the_kernel_with_the_objects_of_fit():
    kernel = StringKernel(base="delta")
    transformer = GramTransformer(kernel)
    np.testing.assert_allclose(transformer.fit_transform(WORDS), kernel(WORDS))
    np.testing.assert_allclose(transformer.transform(WORDS[:2]), kernel(WORDS[:2], WORDS))
    tensors = [torch.randn(n, 2, requires_grad=True) for n in (3, 4)]
    gram = GramTransformer(StringKernel()).fit(tensors).transform(tensors)
    assert isinstance(gram, np.ndarray)
    assert gram.dtype == np.float64


def test_a_grid_search_finds_the_order_and_decay_that_separate_the_classes():
    """Words of the same letters, with classes that differ in their 2-gram."""
    rng = np.random.default_rng(0)
    words, y = [], []
    for i in range(60):
        pair = ("ab", "ba")[i % 2]
        at = rng.integers(0, 4)
        words.append("c" * at + pair + "c" * (4 - at))
        y.append(i % 2)
    pipeline = make_pipeline(
        GramTransformer(StringKernel(1, base="delta").cosine()), SVC(kernel="precomputed")
    )
    grid = {
        "gramtransformer__kernel__kernel__order": [1, 2],
        "gramtransformer__kernel__kernel__decay": [0.0, 1.0],
    }
    search = GridSearchCV(pipeline, grid, cv=3).fit(words, y)
    assert search.best_params_["gramtransformer__kernel__kernel__order"] == 2
    assert search.best_params_["gramtransformer__kernel__kernel__decay"] == 1.0
    assert search.best_score_ > 0.9
    plain = make_pipeline(GramTransformer(StringKernel(base="delta")), SVC(kernel="precomputed"))
    simple = {"gramtransformer__kernel__order": [1, 2], "gramtransformer__kernel__decay": [1.0]}
    assert GridSearchCV(plain, simple, cv=3).fit(words, y).best_params_[
        "gramtransformer__kernel__order"
    ] == 2  # fmt: skip


def test_invalid_kernels_and_unfitted_transformers_are_rejected():
    with pytest.raises(NotFittedError):
        GramTransformer(StringKernel()).transform(WORDS)
    transformer = GramTransformer(StringKernel())
    transformer.kernel = "rbf"
    with pytest.raises(KindError, match="kernel is 'rbf'; expected a kernel"):
        transformer.fit(WORDS)
    with pytest.raises(ArgumentError, match="order is 0"):
        GramTransformer(StringKernel()).set_params(kernel__order=0).fit_transform([[[1.0]]])


class Table:
    """The part of a table of pandas or polars that counts here."""

    shape, columns = (2, 1), ("text",)

    def __iter__(self):
        return iter(self.columns)


def test_a_table_is_not_read_as_the_names_of_its_columns():
    kernels = StringKernel(base="delta"), NgramKernel(), TextKernel().fit
    for call in (*kernels, *(transformer(kernels[0]).fit for transformer in TRANSFORMERS)):
        with pytest.raises(
            KindError, match=r"X is Table; expected a list.*Pass one of its columns"
        ):
            call(Table())


@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_a_kernel_that_must_be_fitted_learns_from_the_training_objects(transformer):
    kernel = TextKernel(str.split, (1,), (1, 2), 1, 1)
    texts = [" ".join(word) for word in WORDS]
    fitted = clone(kernel).fit(texts)
    for given in (kernel, kernel.cosine(), fitted):
        pipeline = make_pipeline(transformer(given), SVC())
        scores = cross_val_score(pipeline, texts, ["a" in w for w in texts], error_score="raise")
        assert scores.min() > 0.9
    assert not hasattr(kernel, "views_")
    assert transformer(fitted).fit(texts[:4]).kernel_ is fitted


@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_features_have_names_and_an_output_container(transformer):
    fitted = transformer(StringKernel(base="delta")).set_output(transform="default").fit(WORDS[:4])
    name = transformer.__name__.lower()
    assert fitted.get_feature_names_out().tolist() == [f"{name}{i}" for i in range(4)]
    assert fitted.transform(WORDS).shape == (len(WORDS), 4)


def test_sizes_of_a_grid_may_be_integers_of_numpy():
    sizes = np.arange(1, 3)
    grid = {"nystroem__kernel__order": sizes, "nystroem__n_components": sizes + 3}
    pipeline = make_pipeline(Nystroem(StringKernel(base="delta"), random_state=0), SVC())
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise")
    kernel = search.fit(WORDS, ["a" in word for word in WORDS]).best_estimator_[0].kernel
    expected = StringKernel(int(kernel.order), base="delta")
    np.testing.assert_array_equal(kernel(WORDS), expected(WORDS))
    assert StringKernel(kernel.order).network(3, 2).order == kernel.order
    two, vectors = np.int64(2), np.eye(3)
    assert np.array_equal(Polynomial(two)(vectors), Polynomial(2)(vectors))
    assert np.array_equal(NgramKernel((two,), max_gap=two)(WORDS), NgramKernel((2,))(WORDS))
    with pytest.raises(ArgumentError, match="order is True; expected a positive integer"):
        StringKernel(True)
