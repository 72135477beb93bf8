"""The four data sets of L19 Table 2 in their common CSV format.

Each is a folder with ``train.csv`` and ``test.csv``, without headers: the class, then one to three
columns of text. Compressed files and subsets are supported; tables name subsets as such.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from representer.data.tables.source import physical_lines
from representer_papers.shared.datasets import existing, located, missing


@dataclass(frozen=True)
class DataSet:
    """Folder names and official sizes of a data set."""

    name: str  # on the command line
    title: str  # in the paper
    folders: tuple[str, ...]  # possible names, the full set first
    text_columns: int  # after the class; a file may have fewer
    train_rows: int
    test_rows: int
    padded_length: int  # words to which the authors' code pads or cuts a document


@dataclass(frozen=True)
class Located:
    """The files of a data set."""

    dataset: DataSet
    train: Path
    test: Path
    text: str  # numbers of the text columns


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


def locate(root: Path, names: Sequence[str]) -> list[Located]:
    """Find data sets in subfolders of a folder; see `located` for errors."""

    def find(root: Path, dataset: DataSet) -> Located:
        for folder in dataset.folders:
            train = existing(root, (folder,), ("train.csv", "train_subset.csv"))
            test = existing(root, (folder,), ("test.csv",))
            if train is not None and test is not None:
                return Located(dataset, train, test, _text_columns(train, dataset))
        raise missing(f"{' or '.join(dataset.folders)} with train.csv and test.csv", root)

    return located(root, names, DATASETS, find)


def _text_columns(path: Path, dataset: DataSet) -> str:
    """Return the numbers of the text columns that the file has."""
    width = len(next(csv.reader(physical_lines(path)), []))
    return ",".join(str(column) for column in range(2, 2 + min(dataset.text_columns, width - 1)))
