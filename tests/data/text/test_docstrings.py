from __future__ import annotations

import sys
import sysconfig
import time
from collections import Counter

import pytest

from representer.data.text import Table, check_labels, docstrings
from representer.data.text.docstrings import PACKAGES
from representer.errors import ArgumentError, DataError


@pytest.fixture(scope="module")
def table() -> Table:
    return docstrings()


def test_there_are_enough_documents_of_ten_packages(table):
    counts = check_labels(table)
    assert len(counts) == 10
    assert 2000 <= len(table) <= 3000
    assert min(counts.values()) >= 100
    assert max(counts.values()) == 300


def test_they_are_there_in_little_time():
    start = time.process_time()
    docstrings(seed=1)
    assert time.process_time() - start < 6


def test_no_document_names_a_package_or_comes_twice(table):
    for text in table.texts:
        lower = text.lower()
        assert not any(package in lower for package in PACKAGES)
        assert len(text.split()) >= 12
    assert len(set(table.texts)) == len(table.texts)


def test_the_seed_alone_decides(table):
    assert docstrings(seed=0) == table
    assert docstrings(seed=1, classes=2).texts != docstrings(seed=2, classes=2).texts


def test_the_order_is_mixed(table):
    assert len(set(table.labels[:60])) >= 8


def test_sizes_are_obeyed():
    table = docstrings(classes=3, per_class=50, min_words=20)
    assert Counter(table.labels) == dict.fromkeys(PACKAGES[:3], 50)
    assert all(len(text.split()) >= 20 for text in table.texts)


def test_nothing_is_imported():
    before = set(sys.modules)
    docstrings(classes=len(PACKAGES), per_class=20)
    assert {name for name in set(sys.modules) - before if not name.startswith("encodings")} == set()


def test_a_python_without_sources_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(DataError, match=r"only 0 of 10 packages.*installed with its sources"):
        docstrings()


@pytest.mark.parametrize(
    "sizes", [{"classes": 1}, {"classes": 99}, {"per_class": 0}, {"min_words": 0}]
)
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(ArgumentError):
        docstrings(**sizes)
