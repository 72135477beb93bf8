"""Models, each a torch module with a frozen configuration."""

from representer.models.cells import CELLS, build_cell, resolve_cell
from representer.models.config import from_dict, to_dict
from representer.models.gine import GINE
from representer.models.graph_regressor import GraphEnsemble, GraphRegressor, draw_as_authors
from representer.models.graph_regressor_config import GraphRegressorConfig
from representer.models.hub import HubModel
from representer.models.language_model import LanguageFeatures, LanguageModel
from representer.models.language_model_config import LanguageModelConfig
from representer.models.sequence_classifier import SequenceClassifier
from representer.models.sequence_classifier_config import SequenceClassifierConfig
from representer.models.signal_classifier import SignalClassifier
from representer.models.signal_classifier_config import SignalClassifierConfig
from representer.models.signal_stream import SignalStream
from representer.models.stacked_classifier import StackedClassifier
from representer.models.stacked_classifier_config import StackedClassifierConfig
from representer.models.tied_adaptive_softmax import TiedAdaptiveSoftmax
from representer.models.tied_softmax import TiedSoftmax

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
