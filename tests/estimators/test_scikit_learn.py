"""scikit-learn's own checks on every estimator, and on estimators of numbers made of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

pytest.importorskip("torch_geometric")
pytest.importorskip("rdkit")

import torch
from torch_geometric.data import Data

from representer import estimators
from representer.estimators import (
    GraphClassifier,
    GraphRegressor,
    MoleculeClassifier,
    MoleculeRegressor,
    SignalClassifier,
    TextClassifier,
    TextRegressor,
)

ALL = [getattr(estimators, name)() for name in estimators.ESTIMATORS]
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SkipTestWarning)  # the other checks want tables of numbers
    every_interface_check = parametrize_with_checks(ALL)


@pytest.mark.suite
@every_interface_check
def test_every_estimator_has_the_interface_of_scikit_learn(estimator, check):
    check(estimator)


class OfNumbers:
    """Makes an estimator of tables of numbers from an estimator of objects.

    scikit-learn's checks fit tables of numbers. Each row becomes a text, a graph or a molecule, so
    that everything behind `_check_objects` is checked.
    """

    def _object(self, row: np.ndarray) -> Any:
        raise NotImplementedError

    def _check_objects(self: Any, X: Any) -> Any:
        if isinstance(X, list) and X and not isinstance(X[0], list):
            return super()._check_objects(X)  # type: ignore[misc]
        table = validate_data(self, X, reset=not hasattr(self, "network_"))
        return super()._check_objects([self._object(row) for row in table])  # type: ignore[misc]

    def fit(self: Any, X: Any, y: Any, **named: Any) -> Any:
        self.__dict__.pop("network_", None)
        super().fit(X, y, **named)  # type: ignore[misc]
        self.n_features_in_ = self._columns
        return self

    def learn_inputs(self: Any, objects: Any, seed: int) -> Any:
        self._columns = self.n_features_in_
        return super().learn_inputs(objects, seed)  # type: ignore[misc]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array, tags.input_tags.string = True, False
        tags.classifier_tags and setattr(tags.classifier_tags, "poor_score", True)
        tags.regressor_tags and setattr(tags.regressor_tags, "poor_score", True)
        return tags


class OfWords(OfNumbers):
    def _object(self, row: np.ndarray) -> str:
        return " ".join(f"{column}is{round(value)}" for column, value in enumerate(row.tolist()))


class OfGraphs(OfNumbers):
    def _object(self, row: np.ndarray) -> Data:
        ends = torch.arange(len(row) - 1)
        x = torch.tensor(np.asarray(row, dtype=np.float64).clip(-1e6, 1e6))[:, None]
        return Data(x=x, edge_index=torch.stack([ends, ends + 1]))


class OfMolecules(OfNumbers):
    def _object(self, row: np.ndarray) -> str:
        return "".join("NCO"[int(np.sign(value)) + 1] for value in row.tolist())


class NumbersAsTexts(OfWords, TextClassifier): ...


class NumberFromTexts(OfWords, TextRegressor): ...


class NumbersAsGraphs(OfGraphs, GraphClassifier): ...


class NumberFromGraphs(OfGraphs, GraphRegressor): ...


class NumbersAsMolecules(OfMolecules, MoleculeClassifier): ...


class NumberFromMolecules(OfMolecules, MoleculeRegressor): ...


TINY = {"epochs": 1, "hidden_size": 4, "verbose": 0, "random_state": 0, "n_jobs": 1}
FITTED = [NumbersAsTexts(**TINY, embedding_size=4, min_count=1, answer="kernel")]
FITTED_SLOWLY = [
    NumbersAsTexts(**TINY, embedding_size=4, min_count=1),
    NumberFromTexts(**TINY, embedding_size=4, min_count=1),
    NumbersAsGraphs(**TINY, depth=1),
    NumberFromGraphs(**TINY, depth=1, answer="network"),
    NumbersAsMolecules(**TINY, depth=1, members=1, answer="network"),
    NumberFromMolecules(**TINY, depth=1, members=1),
]


@pytest.mark.suite
@parametrize_with_checks(FITTED)
def test_estimators_keep_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.suite
@pytest.mark.slow
@parametrize_with_checks(FITTED_SLOWLY)
def test_all_estimators_keep_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


def test_every_parameter_has_a_help_text():
    for estimator in ALL:
        for field in type(estimator).__dataclass_fields__.values():
            assert field.metadata["help"], field.name


def test_tags_say_what_x_is():
    kinds = {type(each).__name__: get_tags(each).input_tags for each in ALL}
    assert not any(tags.two_d_array for tags in kinds.values())
    strings = [name for name, tags in kinds.items() if tags.string]
    assert strings == [
        "LanguageModel", "MoleculeClassifier", "MoleculeRegressor", "TextClassifier",
        "TextRegressor",
    ]  # fmt: skip
    assert kinds["SignalClassifier"].three_d_array


@pytest.mark.parametrize("kind", [TextClassifier, MoleculeRegressor, SignalClassifier])
def test_an_unknown_argument_of_a_method_names_the_class_and_a_similar_argument(kind):
    problem = rf"{kind.__name__}\.fit\(\) got .* 'group'; did you mean 'groups'"
    with pytest.raises(TypeError, match=problem):
        kind().fit(["a"], ["b"], group=[1])
    with pytest.raises(TypeError, match=rf"{kind.__name__}\.score\(\) .* 'weight'"):
        kind().score(["a"], ["b"], weight=[1])
    with pytest.raises(TypeError, match="did you mean 'lr'"):
        kind(learning_rate=1)
    with pytest.raises(TypeError, match=rf"{kind.__name__}\.score\(\) missing .* 'y'"):
        kind().score(["a"])
    with pytest.raises(TypeError, match=rf"{kind.__name__}\.score\(\) too many"):
        kind().score(["a"], ["b"], *range(20))
