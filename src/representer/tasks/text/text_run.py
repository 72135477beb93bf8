"""Write and load the run folder of a text classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from representer.data.text import LabelMap, Vocabulary, tokenize
from representer.models import (
    SequenceClassifier,
    SequenceClassifierConfig,
    StackedClassifier,
    StackedClassifierConfig,
    to_dict,
)
from representer.storage.fields import from_values
from representer.storage.run_files import MODEL, RunFiles
from representer.storage.run_folder import RunFolder
from representer.tasks.options import as_yaml
from representer.tasks.text.text_config import ReadOptions, TextConfig
from representer.tasks.text.text_data import TextData

VOCABULARY, LABELS = "vocabulary.json", "labels.json"
Classifier = SequenceClassifier | StackedClassifier
Tokenizer = Literal["words", "blanks", "leam"]


@dataclass(frozen=True)
class TrainedText:
    """A trained classifier with everything that prediction needs.

    Attributes:
        model: The network, in evaluation mode.
        vocabulary: Words of the training data.
        classes: Names of the classes.
        reading: How the training data were read, columns as detected.
        tokenizer: Tokenization scheme.
        max_length: Maximum number of words of a text; None for no limit.
    """

    model: Classifier
    vocabulary: Vocabulary
    classes: LabelMap
    reading: ReadOptions
    tokenizer: str
    max_length: int | None

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the word ids of each text."""
        words = (tokenize(text, self.tokenizer) for text in texts)  # type: ignore[arg-type]
        return [self.vocabulary.encode(tokens[: self.max_length]) for tokens in words]


def write_inputs(
    run: RunFolder, config: TextConfig, data: TextData, model: SequenceClassifier
) -> None:
    """Write the inputs of a run: everything but weights and results."""
    run.write_text("config.yaml", as_yaml(config))
    run.write_text(VOCABULARY, data.vocabulary.to_json() + "\n")
    run.write_text(LABELS, data.classes.to_json() + "\n")
    run.write_json("splits.json", data.splits())
    describe_model(run, model, data.reading, config.tokenizer, config.max_length)


def describe_model(
    run: RunFolder,
    model: Classifier,
    reading: ReadOptions,
    tokenizer: str,
    max_length: int | None,
) -> None:
    """Write model.json, which `load_run` reads."""
    described = {
        "task": "text",
        "classifier": type(model).__name__,
        "model": to_dict(model.config),
        "reading": asdict(reading),
        "tokenizer": tokenizer,
        "max_length": max_length,
    }
    run.write_json(MODEL, described)


@dataclass(frozen=True)
class _Described:
    """model.json of a text run."""

    task: str
    model: dict[str, Any]
    reading: ReadOptions
    tokenizer: Tokenizer
    max_length: int | None
    classifier: str = SequenceClassifier.__name__

    def __post_init__(self) -> None:
        if not self.reading.text:
            raise ValueError("it names no column of texts")


def load_run(folder: str | Path) -> TrainedText:
    """Read the classifier of a run folder.

    Raises:
        DataError: If the folder holds no trained text classifier, or a damaged one.
        CheckpointError: If its weights are damaged.
    """
    files = RunFiles(folder)
    described = files.describe("text", "text classifier", _Described)
    is_stacked = described.classifier == StackedClassifier.__name__
    kind = StackedClassifierConfig if is_stacked else SequenceClassifierConfig
    config = files.parsed(MODEL, lambda: from_values(kind, described.model))
    vocabulary = Vocabulary.from_json(files.text(VOCABULARY), file=files.folder / VOCABULARY)
    classes = LabelMap.from_json(files.text(LABELS), file=files.folder / LABELS)
    files.require(VOCABULARY, "words", len(vocabulary), config.vocabulary_size)
    files.require(LABELS, "classes", len(classes), config.num_classes)
    build = StackedClassifier if is_stacked else SequenceClassifier
    return TrainedText(
        model=files.load_model(lambda: build(config)),
        vocabulary=vocabulary,
        classes=classes,
        reading=described.reading,
        tokenizer=described.tokenizer,
        max_length=described.max_length,
    )
