"""Reader of the Stanford Sentiment Treebank in its common format, one label and text per line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from representer.data.text import Vocabulary, read_labeled_lines
from representer.estimators.classes import Classes
from representer.estimators.text import TextInputs
from representer.tasks.estimator_data import Data
from representer.tasks.estimator_objects import encode_labels
from representer.tasks.text.text_flow import objects_of
from representer_papers.shared.datasets import existing, located, missing


@dataclass(frozen=True)
class DataSet:
    """A task of the treebank with its training data."""

    name: str  # on the command line
    title: str  # in the table
    stem: str  # first part of the file names
    labels: tuple[str, ...]
    train: str  # last part of the training file's name
    sizes: tuple[int, int, int]  # original training, validation and test examples

    @property
    def task(self) -> str:
        """The paper's name of the task: fine or binary."""
        return self.name.partition("-")[0]


_FINE, _BINARY = ("0", "1", "2", "3", "4"), ("0", "1")
DATASETS = {
    d.name: d
    for d in (
        DataSet("fine", "five classes, trained on phrases", "stsa.fine", _FINE,
                "phrases.train", (157_401, 1_101, 2_210)),
        DataSet("binary", "two classes, trained on phrases", "stsa.binary", _BINARY,
                "phrases.train", (77_201, 872, 1_821)),
        DataSet("fine-roots", "five classes, trained on sentences", "stsa.fine", _FINE,
                "train", (8_544, 1_101, 2_210)),
        DataSet("binary-roots", "two classes, trained on sentences", "stsa.binary", _BINARY,
                "train", (6_920, 872, 1_821)),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Located:
    """The files of a data set."""

    dataset: DataSet
    train: Path
    valid: Path
    test: Path


def locate(root: Path, names: Sequence[str]) -> list[Located]:
    """Find data sets in a folder, or in its folder ``sst``; see `located` for errors."""

    def find(root: Path, dataset: DataSet) -> Located:
        paths = []
        for end in (dataset.train, "dev", "test"):
            name = f"{dataset.stem}.{end}"
            path = existing(root, ("sst", "stsa", ""), (name,))
            if path is None:
                raise missing(f"{name}, nor sst/{name}, also compressed", root)
            paths.append(path)
        return Located(dataset, *paths)

    return located(root, names, DATASETS, find)


def read(place: Located) -> Data:
    """Read the parts of a data set, with the vocabulary of all parts.

    The text is already tokenized, so it is split at spaces.

    Raises:
        DataError: If a file is invalid; the error names the file and the line.
    """
    labels = place.dataset.labels
    paths = {"train": place.train, "valid": place.valid, "test": place.test}
    parts = {n: objects_of(read_labeled_lines(p, labels), (p,)) for n, p in paths.items()}
    values = {name: encode_labels(part, [labels]) for name, part in parts.items()}
    words = Vocabulary.build([text.split() for part in parts.values() for text in part.objects])
    return with_vocabulary(Data(Classes(labels), parts, values, list(parts.items())), words)


def with_vocabulary(data: Data, vocabulary: Vocabulary) -> Data:
    """Return the data with another vocabulary."""
    inputs = TextInputs(vocabulary, "blanks", None)
    encoded = {name: inputs.encode(part.objects) for name, part in data.parts.items()}
    return replace(data, inputs=inputs, encoded=encoded)
