"""Write and load the run folder of a text classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from representer.data.tables import LabelMap
from representer.data.text import Vocabulary
from representer.estimators import TextClassifier, saving
from representer.estimators.classes import Classes
from representer.estimators.text_explanation import TextModel
from representer.storage.fields import from_values
from representer.storage.run_files import MODEL, RunFiles
from representer.tasks.text.text_config import ReadOptions


@dataclass(frozen=True)
class TrainedText:
    """A trained classifier, and how its training data were read.

    Attributes:
        estimator: The classifier.
        reading: Options of reading, columns as detected.
    """

    estimator: TextClassifier
    reading: ReadOptions

    @property
    def model(self) -> TextModel:
        """The network, in evaluation mode."""
        return self.estimator.network_

    @property
    def target(self) -> Classes:
        """The classes, as the estimator has them."""
        return cast(Classes, self.estimator.target_)

    @property
    def vocabulary(self) -> Vocabulary:
        """Words of the training data."""
        return self.estimator.inputs_.vocabulary

    @property
    def classes(self) -> LabelMap:
        """Names of the classes."""
        return LabelMap(tuple(map(str, self.target.names)))  # in Python they may be numbers

    def words(self, text: str) -> list[str]:
        """Return the words of a text that the network reads."""
        return self.estimator.inputs_.words(text)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the word ids of each text."""
        return self.estimator.inputs_.encode(texts)


def load_run(folder: str | Path) -> TrainedText:
    """Read the classifier of a run folder.

    Raises:
        DataError: If the folder holds no trained text classifier, or a damaged one.
        CheckpointError: If its weights are damaged.
    """
    files = RunFiles(folder)
    saved = saving.read_description(files)
    reading = files.parsed(MODEL, lambda: from_values(ReadOptions, saved.reading))
    return TrainedText(cast(TextClassifier, saving.load(folder, TextClassifier)), reading)
