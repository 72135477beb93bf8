"""The four data sets of L19 Table 2 in the form in which they are handed round.

Each is a folder with a headerless ``train.csv`` and ``test.csv`` of class, then one to three
columns of text; compressed files and subsets are taken as well, and named as what they are.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from representer.errors import DataError
from representer_papers.shared.datasets import wanted


@dataclass(frozen=True)
class DataSet:
    """Where a data set may lie and how large it is.

    Attributes:
        name: Ours.
        title: The paper's.
        folders: Names that its folder may have, the full set first.
        text_columns: Columns of text behind the class; a file may have fewer.
        train_rows: Rows of the official training file.
        test_rows: Rows of the official test file.
        padded_length: Words that the authors' code reads of a document.
    """

    name: str
    title: str
    folders: tuple[str, ...]
    text_columns: int
    train_rows: int
    test_rows: int
    padded_length: int


@dataclass(frozen=True)
class Located:
    """A data set that was found.

    Attributes:
        dataset: Which.
        train: Its training file.
        test: Its test file.
        text: The columns of text, by number.
    """

    dataset: DataSet
    train: Path
    test: Path
    text: str


DATASETS = {
    d.name: d
    for d in (
        DataSet("ag_news", "AG News", ("ag_news_csv", "ag_news"), 2, 120_000, 7_600, 128),
        DataSet("dbpedia", "DBpedia", ("dbpedia_csv", "dbpedia_14k"), 2, 560_000, 70_000, 128),
        DataSet("yahoo", "Yahoo! Answers", ("yahoo_answers_csv", "yahoo_2class"), 3,
                1_400_000, 60_000, 96),
        DataSet("yelp", "Yelp Full", ("yelp_review_full_csv", "yelp_10k"), 1,
                650_000, 50_000, 128),
    )
}  # fmt: skip

_SUFFIXES = (".csv", ".csv.xz", ".csv.gz", ".csv.bz2")


def locate(root: Path, names: Sequence[str]) -> list[Located]:
    """Find data sets under a folder.

    Args:
        root: The folder that has one folder for each.
        names: Which are wanted; empty for all that are there.

    Raises:
        ArgumentError: If a name is not that of a data set.
        DataError: If one that was named, or every one, is missing.
    """
    found = [(dataset, _locate(root, dataset)) for dataset in wanted(root, names, DATASETS)]
    missing = [dataset for dataset, place in found if place is None]
    if missing and (names or len(missing) == len(found)):
        raise DataError(
            f"there is no {' or '.join(missing[0].folders)} with train.csv and test.csv in it",
            file=root,
            mend="Put the data set there, or leave it out of --datasets.",
        )
    return [place for _, place in found if place is not None]


def _locate(root: Path, dataset: DataSet) -> Located | None:
    for folder in (root / name for name in dataset.folders):
        train, test = _file(folder, ("train", "train_subset")), _file(folder, ("test",))
        if train is not None and test is not None:
            return Located(dataset, train, test, _text_columns(train, dataset))
    return None


def _file(folder: Path, stems: Sequence[str]) -> Path | None:
    paths = (folder / f"{stem}{suffix}" for stem in stems for suffix in _SUFFIXES)
    return next((path for path in paths if path.is_file()), None)


def _text_columns(path: Path, dataset: DataSet) -> str:
    """Return the numbers of the text columns, as many as the file has of those it may have."""
    from representer.data.text.source import physical_lines

    width = len(next(csv.reader(physical_lines(path)), []))
    return ",".join(str(column) for column in range(2, 2 + min(dataset.text_columns, width - 1)))
