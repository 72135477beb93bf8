"""Models, each a torch module with a frozen configuration."""

from representer.models.cells import CELLS, build_cell, resolve_cell
from representer.models.config import from_dict, to_dict
from representer.models.graph_regressor import (
    GINE,
    GraphEnsemble,
    GraphRegressor,
    GraphRegressorConfig,
    draw_as_authors,
)
from representer.models.hub import HubModel
from representer.models.language_model import LanguageFeatures, LanguageModel, LanguageModelConfig
from representer.models.sequence_classifier import SequenceClassifier, SequenceClassifierConfig
from representer.models.signal_classifier import (
    SignalClassifier,
    SignalClassifierConfig,
    SignalStream,
)
from representer.models.softmax import TiedAdaptiveSoftmax, TiedSoftmax
from representer.models.stacked_classifier import StackedClassifier, StackedClassifierConfig

__all__ = [
    "CELLS",
    "GINE",
    "GraphEnsemble",
    "GraphRegressor",
    "GraphRegressorConfig",
    "HubModel",
    "LanguageFeatures",
    "LanguageModel",
    "LanguageModelConfig",
    "SequenceClassifier",
    "SequenceClassifierConfig",
    "SignalClassifier",
    "SignalClassifierConfig",
    "SignalStream",
    "StackedClassifier",
    "StackedClassifierConfig",
    "TiedAdaptiveSoftmax",
    "TiedSoftmax",
    "build_cell",
    "draw_as_authors",
    "from_dict",
    "resolve_cell",
    "to_dict",
]
