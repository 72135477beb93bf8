"""The estimator of a text run, and its training examples."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from representer.data.text import WordVectors
from representer.estimators import TextClassifier
from representer.estimators.fitting import Examples
from representer.estimators.targets import Classes
from representer.estimators.text import TextInputs
from representer.estimators.text_parameters import TextParameters
from representer.tasks.text.text_config import TextConfig
from representer.tasks.text.text_data import Part, TextData


def estimator_of(
    config: TextConfig, data: TextData, vectors: WordVectors | None = None
) -> TextClassifier:
    """Return the estimator with its inputs and classes, before training.

    Args:
        config: Options of the run.
        data: Data of the run.
        vectors: Pretrained word vectors; they set the size of the embedding.
    """
    names = {field.name for field in fields(TextParameters)}
    options = {name: value for name, value in config.to_dict().items() if name in names}
    chosen = {
        "vectors": vectors, "random_state": config.seed, "n_jobs": config.threads or None,
        "monitor": "accuracy",
    }  # fmt: skip
    estimator = TextClassifier(**(options | chosen))
    estimator.target_ = Classes(data.classes.names)
    estimator.inputs_ = TextInputs(data.vocabulary, config.tokenizer, config.max_length)
    return estimator


def examples_of(data: TextData, part: Part) -> Examples:
    """Return the documents of a part as the numbers of their words, and their classes."""
    documents = [data.vocabulary.encode(tokens) for tokens in part.tokens]
    return Examples(documents, np.asarray(part.labels))
