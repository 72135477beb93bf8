"""Lines of code, half of them with two swapped tokens."""

from __future__ import annotations

import asyncio
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from representer.data.text import Table, code_lines
from representer.errors import ArgumentError, DataError


@pytest.fixture(scope="session")
def table() -> Table:
    return code_lines(count=4000)


def test_half_of_the_lines_are_swapped_without_duplicates(table):
    assert Counter(table.labels) == {"original": 2000, "swapped": 2000}
    assert len(set(table.texts)) == 4000
    assert all(6 <= len(text.split()) <= 25 for text in table.texts)


def test_original_lines_are_from_the_source_and_swapped_ones_differ_in_two_tokens(table):
    parsed = 0
    for text, label in zip(table.texts, table.labels, strict=True):
        code = text.replace('"…"', '""')
        try:
            compile(code if not code.endswith(":") else f"{code} pass", "line", "exec")
        except SyntaxError:
            continue
        parsed += label == "original"
    assert parsed > 1400  # the others are `return`, `else` and the like, out of their block


def test_single_tokens_are_independent_of_the_label(table):
    """Counts of tokens are nearly equal in both classes."""
    counts = {"original": Counter(), "swapped": Counter()}
    for text, label in zip(table.texts, table.labels, strict=True):
        counts[label].update(text.split())
    for token, count in counts["original"].most_common(10):
        assert counts["swapped"][token] == pytest.approx(count, rel=0.25), token


def test_the_seed_selects_lines_and_order(monkeypatch):
    some = str(Path(asyncio.__file__).parent)  # listing all of them takes longer than the rest
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": some})
    first, again, other = (code_lines(seed, count=50) for seed in (1, 1, 2))
    assert first == again  # the seed alone decides
    assert first.texts != other.texts


@pytest.mark.parametrize("sizes", [{"count": 1}, {"min_tokens": 1}, {"max_tokens": 5}])
def test_sizes_out_of_range_are_rejected(sizes):
    with pytest.raises(ArgumentError):
        code_lines(**sizes)


def test_a_python_without_sources_is_a_data_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(DataError, match="only 0 of 20000 lines of code"):
        code_lines()
