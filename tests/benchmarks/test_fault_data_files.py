"""A part of the suite of damaged data files, and what its checks see."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

HELD_BACK = ("a long dictionary", "50 million rows", "a cell of 50 MB", "a line of")  # slow to make


@pytest.fixture
def suite(bench):
    found = bench("faults.data_files")
    found.setup()
    return found


@pytest.mark.slow
def test_a_sample_of_damaged_files_is_read_or_rejected_in_one_line(suite, failures):
    chosen = [case for case in suite.cases(0, 0.1) if not any(n in case.name for n in HELD_BACK)]
    assert failures(chosen[:25]) == []


@pytest.mark.slow
def test_damaged_files_of_every_format_are_read_or_rejected_in_one_line(suite, failures):
    assert failures(suite.cases(1, 1.0)) == []


@pytest.mark.slow
def test_shifted_rows_code_and_memory_are_seen(suite, tmp_path: Path):
    kind = suite.FORMATS["csv"]
    path = tmp_path / "table.csv"
    kind.write(path)

    def fails(read, words: str) -> None:
        with pytest.raises(AssertionError, match=words):
            suite._attempt(replace(kind, read=read), path)

    fails(lambda path: kind.read(path)[:-1], "the file holds")
    fails(lambda path: [*kind.read(path)[:2], *kind.read(path)[3:]], "the file holds")
    fails(lambda path: [kind.read(path), bytearray(2**31)], "MemoryError")
    fails(lambda path: random.choices([]), "exit code 70")
    fails(lambda path: (path.parent / "executed").touch(), "code was executed")
