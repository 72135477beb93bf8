"""Models: a frozen configuration and a Module each."""

from representer.models.cells import CELLS, build_cell, resolve_cell
from representer.models.config import from_dict, to_dict
from representer.models.language_model import LanguageFeatures, LanguageModel
from representer.models.language_model_config import LanguageModelConfig
from representer.models.sequence_classifier import SequenceClassifier
from representer.models.sequence_classifier_config import SequenceClassifierConfig
from representer.models.signal_classifier import SignalClassifier
from representer.models.signal_classifier_config import SignalClassifierConfig
from representer.models.stacked_classifier import StackedClassifier
from representer.models.stacked_classifier_config import StackedClassifierConfig
from representer.models.tied_adaptive_softmax import TiedAdaptiveSoftmax
from representer.models.tied_softmax import TiedSoftmax

__all__ = [
    "CELLS",
    "LanguageFeatures",
    "LanguageModel",
    "LanguageModelConfig",
    "SequenceClassifier",
    "SequenceClassifierConfig",
    "SignalClassifier",
    "SignalClassifierConfig",
    "StackedClassifier",
    "StackedClassifierConfig",
    "TiedAdaptiveSoftmax",
    "TiedSoftmax",
    "build_cell",
    "from_dict",
    "resolve_cell",
    "to_dict",
]
