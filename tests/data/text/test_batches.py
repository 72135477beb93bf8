"""Texts as batches: padding, lengths, buckets."""

from __future__ import annotations

import lzma
import sysconfig
from collections import Counter
from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from representer.data import stored
from representer.data.tables import Dropped
from representer.data.text import (
    Table,
    Vocabulary,
    code_lines,
    collate,
    equal_lengths,
    read_labeled_lines,
    truncation,
)
from representer.errors import ArgumentError, DataError

DOCUMENTS = st.lists(st.lists(st.integers(1, 99), max_size=9), min_size=1, max_size=6)


@given(documents=DOCUMENTS, max_length=st.one_of(st.none(), st.integers(1, 9)))
def test_rows_are_truncated_documents_followed_by_padding(documents, max_length):
    tokens, lengths = collate(documents, max_length)
    assert tokens.dtype == lengths.dtype == torch.int64
    assert tokens.shape == (len(documents), max(1, int(lengths.max())))
    for row, length, document in zip(tokens.tolist(), lengths.tolist(), documents, strict=True):
        assert row[:length] == document[:max_length]
        assert length == min(len(document), max_length or 9)
        assert set(row[length:]) <= {Vocabulary.PAD}


def test_truncation_is_reported():
    report = truncation([4, 5, 8], 4)
    assert (report.cut, report.tokens_cut, report.tokens, report.longest) == (2, 5, 17, 8)
    assert str(report) == (
        "2 of 3 documents are truncated to their first 4 tokens; 29.4% of tokens are removed"
    )
    assert str(truncation([1, 3], 4)) == "no document is longer than 4 tokens (longest 3)"


def test_empty_batches_and_invalid_limits_are_rejected():
    with pytest.raises(ArgumentError, match="documents is"):
        collate([])
    with pytest.raises(ArgumentError, match="max_length is 0"):
        collate([[1]], 0)
    with pytest.raises(ArgumentError, match="max_length is 0"):
        truncation([1], 0)


@given(
    lengths=st.lists(st.integers(0, 9), max_size=200), batch_size=st.integers(1, 20),
    seed=st.integers(-5, 2**64), epoch=st.integers(0, 100),
)  # fmt: skip
def test_every_document_is_in_one_batch_of_equal_lengths(lengths, batch_size, seed, epoch):
    batches = equal_lengths(lengths, batch_size, seed, epoch)
    assert sorted(chain.from_iterable(batches)) == list(range(len(lengths)))
    assert all(len({lengths[i] for i in batch}) == 1 for batch in batches)
    assert all(len(batch) <= batch_size for batch in batches)
    assert batches == equal_lengths(lengths, batch_size, seed, epoch)


def test_there_are_no_more_batches_than_needed():
    lengths = [1] * 10 + [2] * 9 + [7]
    batches = equal_lengths(lengths, 4, 0, 0)
    assert sorted(map(len, batches)) == [1, 1, 2, 4, 4, 4, 4]


def test_the_order_of_an_epoch_is_the_same_on_every_machine():
    assert equal_lengths([3, 1, 1, 3, 3, 1], 2, seed=7, epoch=1) == [[2, 5], [0], [1], [4, 3]]


def test_an_invalid_size_is_rejected():
    with pytest.raises(ArgumentError, match="1 or more"):
        equal_lengths([1, 2], 0, 0, 0)


# The vocabulary and the word numbers of texts in a file.


def test_words_after_the_largest_number_of_distinct_ones_are_unknown(monkeypatch):
    monkeypatch.setattr(stored, "DISTINCT", 3)
    monkeypatch.setattr(stored, "_BLOCK", 2)
    texts = ["a b a", "c a", "d c <unk>", ""]
    vocabulary, encoded = stored.stored_documents(texts, str.split, 1)
    assert vocabulary.words == ("<pad>", "<unk>", "a", "c", "b")
    assert [*encoded] == [[2, 4, 2], [3, 2], [1, 3, 1], []]
    assert stored.document_lengths(encoded) == [3, 2, 3, 0]


def test_the_vocabulary_has_the_most_frequent_words(monkeypatch):
    monkeypatch.setattr(stored, "LARGEST", 4)
    vocabulary, encoded = stored.stored_documents(["a b b c c c", "c d"], str.split, 1)
    assert vocabulary.words == ("<pad>", "<unk>", "c", "b")
    assert [*encoded] == [[1, 3, 3, 2, 2, 2], [2, 1]]


# Lines of code, half of them with two swapped tokens.


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


@pytest.mark.parametrize("sizes", [{"count": 1}, {"min_tokens": 1}, {"max_tokens": 5}])
def test_sizes_out_of_range_are_rejected(sizes):
    with pytest.raises(ArgumentError):
        code_lines(**sizes)


def test_a_python_without_sources_is_a_data_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(DataError, match="only 0 of 20000 lines of code"):
        code_lines()


# .


def test_the_first_space_separates_label_and_text(tmp_path):
    path = tmp_path / "train"
    path.write_text("4 a stirring , funny film\n0  dull \n1 no-break\xa0space\n")
    table = read_labeled_lines(path, ["0", "1", "4"])
    assert table.texts == ["a stirring , funny film", "dull", "no-break\xa0space"]
    assert (table.labels, table.lines) == (["4", "0", "1"], [1, 2, 3])
    assert (table.source, table.dropped) == (str(path), [])


def test_any_label_is_allowed_by_default(tmp_path):
    path = tmp_path / "train"
    path.write_text("good film\nbad film\n")
    assert read_labeled_lines(path).labels == ["good", "bad"]


def test_lines_without_a_text_are_dropped_and_listed(tmp_path):
    path = tmp_path / "train"
    path.write_text("1 film\n\n  \n0\n0 \n1 again\n")
    table = read_labeled_lines(path, ["0", "1"])
    assert (table.texts, table.lines) == (["film", "again"], [1, 6])
    assert table.dropped == [
        Dropped(2, "empty line"), Dropped(3, "empty line"), Dropped(4, "empty text"),
        Dropped(5, "empty text"),
    ]  # fmt: skip


def test_compressed_files_are_read(tmp_path):
    path = tmp_path / "train.xz"
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.write("1 film\n")
    assert read_labeled_lines(path).texts == ["film"]


def test_a_line_without_a_known_label_is_rejected(tmp_path):
    path = tmp_path / "train"
    path.write_text("1 film\nthe rock\n")
    with pytest.raises(DataError, match=r"train, line 2: starts with 'the' .* labels '0', '1'\. "):
        read_labeled_lines(path, ["0", "1"])
    path.write_text("1 film\n0film\n")
    with pytest.raises(DataError, match="line 2: starts with '0film'"):
        read_labeled_lines(path, ["0", "1"])


@pytest.mark.parametrize("content", ["\n\n", "0\n1\n"])
def test_a_file_without_any_text_is_rejected(tmp_path, content):
    path = tmp_path / "train"
    path.write_text(content)
    with pytest.raises(DataError, match="has no line with a label and a text"):
        read_labeled_lines(path)


def test_a_file_that_is_no_text_is_rejected_with_the_line(tmp_path):
    path = tmp_path / "train"
    path.write_bytes(b"1 film\n0 caf\xe9\n")
    with pytest.raises(DataError, match="train, line 2: byte 0xe9"):
        read_labeled_lines(path)
