"""Estimators: a task in Python, in the conventions of scikit-learn."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors; `make generated` writes these lines and `__all__`
    from representer.estimators.base import load
    from representer.estimators.explanation import Contribution, Explanation
    from representer.estimators.graph import GraphClassifier, GraphRegressor
    from representer.estimators.language import LanguageModel
    from representer.estimators.molecule import MoleculeClassifier, MoleculeRegressor
    from representer.estimators.sequence import SequenceClassifier, SequenceRegressor
    from representer.estimators.series import SeriesClassifier, SeriesRegressor
    from representer.estimators.signal import SignalClassifier
    from representer.estimators.text import TextClassifier, TextRegressor

    ESTIMATORS: tuple[str, ...]

__all__ = [
    "ESTIMATORS", "Contribution", "Explanation", "GraphClassifier", "GraphRegressor",
    "LanguageModel", "MoleculeClassifier", "MoleculeRegressor", "SequenceClassifier",
    "SequenceRegressor", "SeriesClassifier", "SeriesRegressor", "SignalClassifier",
    "TextClassifier", "TextRegressor", "load",
]  # fmt: skip

__dir__ = __all__.copy  # what tab completion shows
OF_ALL = {"Contribution": "explanation", "Explanation": "explanation", "load": "base"}


def __getattr__(name: str) -> Any:
    if name in OF_ALL:
        return resolve_name(f"{__name__}.{OF_ALL[name]}:{name}")
    from representer.options.registry import classes  # whose tasks of others may import this module

    if name == "ESTIMATORS":
        return tuple(sorted(classes()))
    if name in classes():
        return resolve_name(classes()[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
