"""The task ``text``: classification of the texts of a table."""

from __future__ import annotations

from representer.tasks.task import Task
from representer.tasks.text.text_config import ReadOptions, TextConfig, defaults

_HOME = "representer.tasks.text"
TEXT = Task(
    name="text",
    summary="Train a text classifier on a table of texts and labels.",
    noun="texts",
    config=TextConfig,
    defaults=lambda given: defaults(given.preset, demo=given.demo, cell=given.cell),
    options={"evaluate": (ReadOptions,), "predict": (ReadOptions,), "explain": (ReadOptions,)},
    functions={
        "fit": f"{_HOME}.text_demo:fit_or_demo",
        "evaluate": f"{_HOME}.text_use:evaluate",
        "predict": f"{_HOME}.text_use:predict",
        "explain": f"{_HOME}.text_explain:explain",
        "as_text": f"{_HOME}.text_marks:as_text",
    },
    packages=("accelerate", "safetensors", "scikit-learn", "matplotlib", "jinja2"),
)
