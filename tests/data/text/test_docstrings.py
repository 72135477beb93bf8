from __future__ import annotations

import sys
import sysconfig
import time
from collections import Counter

import pytest

from representer.data.text import Table, check_labels, docstrings
from representer.data.text.docstrings import PACKAGES
from representer.errors import ArgumentError, DataError

IMPORTED: set[str] = set()
SECONDS: list[float] = []


@pytest.fixture(scope="module")
def table() -> Table:
    before, started = set(sys.modules), time.process_time()
    table = docstrings()
    SECONDS.append(time.process_time() - started)
    IMPORTED.update(set(sys.modules) - before)
    return table


def test_there_are_enough_documents_of_ten_packages(table):
    counts = check_labels(table)
    assert len(counts) == 10
    assert 2000 <= len(table) <= 3000
    assert min(counts.values()) >= 100
    assert max(counts.values()) == 300


def test_docstrings_are_read_quickly(table):
    assert SECONDS[0] < 6


def test_no_document_names_a_package_or_is_a_duplicate(table):
    for text in table.texts:
        lower = text.lower()
        assert not any(package in lower for package in PACKAGES)
        assert len(text.split()) >= 12
    assert any("package" in text for text in table.texts)
    assert len(set(table.texts)) == len(table.texts)


def test_the_seed_determines_the_documents():
    first, again, other = (docstrings(seed, classes=2) for seed in (1, 1, 2))
    assert first == again
    assert first.texts != other.texts


def test_the_order_is_mixed(table):
    assert len(set(table.labels[:60])) >= 8


def test_sizes_are_respected():
    table = docstrings(classes=3, per_class=50, min_words=20)
    assert Counter(table.labels) == dict.fromkeys(PACKAGES[:3], 50)
    assert all(len(text.split()) >= 20 for text in table.texts)


def test_nothing_is_imported(table):
    assert {name for name in IMPORTED if not name.startswith("encodings")} == set()


def test_a_python_without_sources_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(DataError, match=r"only 0 of 10 packages.*installed with its sources"):
        docstrings()


@pytest.mark.parametrize(
    "sizes", [{"classes": 1}, {"classes": 99}, {"per_class": 0}, {"min_words": 0}]
)
def test_invalid_sizes_are_rejected(sizes):
    with pytest.raises(ArgumentError):
        docstrings(**sizes)
