"""Models, each a torch module with a frozen configuration."""

from typing import Any

from representer.models.base import HubModel, from_dict, to_dict
from representer.models.cells import CELLS, build_cell, resolve_cell
from representer.models.graph_regressor import (
    GINE,
    GraphEnsemble,
    GraphRegressionNetwork,
    GraphRegressorConfig,
    draw_as_authors,
)
from representer.models.language_model import (
    LanguageFeatures,
    LanguageModelConfig,
    LanguageNetwork,
    TiedAdaptiveSoftmax,
    TiedSoftmax,
)
from representer.models.sequence_classifier import (
    SequenceClassifierConfig,
    SequenceNetwork,
    SeriesNetwork,
    SeriesNetworkConfig,
    StackedClassifier,
    StackedClassifierConfig,
)
from representer.models.signal_classifier import SignalClassifierConfig, SignalNetwork, SignalStream

__all__ = [
    "CELLS", "GINE", "GraphEnsemble", "GraphRegressionNetwork", "GraphRegressorConfig", "HubModel",
    "LanguageFeatures", "LanguageModelConfig", "LanguageNetwork", "SequenceClassifierConfig",
    "SequenceNetwork", "SeriesNetwork", "SeriesNetworkConfig", "SignalClassifierConfig",
    "SignalNetwork", "SignalStream", "StackedClassifier", "StackedClassifierConfig",
    "TiedAdaptiveSoftmax", "TiedSoftmax", "build_cell", "draw_as_authors", "from_dict",
    "resolve_cell", "to_dict",
]  # fmt: skip

__dir__ = __all__.copy  # what tab completion shows

_FORMER = {  # names of networks before estimators had the same
    "GraphRegressor": GraphRegressionNetwork,
    "LanguageModel": LanguageNetwork,
    "SequenceClassifier": SequenceNetwork,
    "SignalClassifier": SignalNetwork,
}


def __getattr__(name: str) -> Any:
    """Return a network by its former name, which older programs and model cards use."""
    if name not in _FORMER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _FORMER[name]
