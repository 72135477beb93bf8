"""Estimators: a task in Python, in the conventions of scikit-learn."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from representer.estimators.base import load
    from representer.estimators.explanation import Contribution, Explanation
    from representer.estimators.graph import GraphClassifier, GraphRegressor
    from representer.estimators.language import LanguageModel
    from representer.estimators.molecule import MoleculeClassifier, MoleculeRegressor
    from representer.estimators.sequence import SequenceClassifier, SequenceRegressor
    from representer.estimators.series import SeriesClassifier, SeriesRegressor
    from representer.estimators.signal import SignalClassifier
    from representer.estimators.text import TextClassifier, TextRegressor

_HOMES = {
    "Contribution": "explanation",
    "Explanation": "explanation",
    "GraphClassifier": "graph",
    "GraphRegressor": "graph",
    "LanguageModel": "language",
    "MoleculeClassifier": "molecule",
    "MoleculeRegressor": "molecule",
    "SequenceClassifier": "sequence",
    "SequenceRegressor": "sequence",
    "SeriesClassifier": "series",
    "SeriesRegressor": "series",
    "SignalClassifier": "signal",
    "TextClassifier": "text",
    "TextRegressor": "text",
    "load": "base",
}
ESTIMATORS = tuple(name for name in _HOMES if _HOMES[name] not in ("explanation", "base"))
__all__ = [
    "ESTIMATORS", "Contribution", "Explanation", "GraphClassifier", "GraphRegressor",
    "LanguageModel", "MoleculeClassifier", "MoleculeRegressor", "SequenceClassifier",
    "SequenceRegressor", "SeriesClassifier", "SeriesRegressor", "SignalClassifier",
    "TextClassifier", "TextRegressor", "load",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__dir__ = __all__.copy  # what tab completion shows
