"""The task ``language``: a language model of a running text."""

from __future__ import annotations

from representer.estimators.adaptation import Adaptation
from representer.tasks.language.language_config import LanguageConfig, LanguageReading, defaults
from representer.tasks.task import Task

_HOME = "representer.tasks.language"
LANGUAGE = Task(
    name="language",
    summary="Train a language model on a running text.",
    noun="running text",
    config=LanguageConfig,
    defaults=lambda given: defaults(given.preset, demo=given.demo),
    options={
        "evaluate": (Adaptation,),
        "predict": (LanguageReading,),
        "explain": (LanguageReading,),
        "generate": (),
    },
    functions={
        "fit": f"{_HOME}.language_fit:fit",
        "comparison": f"{_HOME}.language_comparison:comparison",
        "evaluate": f"{_HOME}.language_use:evaluate",
        "predict": f"{_HOME}.language_use:predict",
        "explain": f"{_HOME}.language_use:explain",
        "as_text": "representer.tasks.estimator_explain:as_text",
        "generate": f"{_HOME}.language_use:generate",
    },
    packages=("accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2"),
    takes_strings=True,
)
