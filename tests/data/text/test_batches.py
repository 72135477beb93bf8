"""Texts as batches: padding, lengths, buckets."""

from __future__ import annotations

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from representer.data import stored
from representer.data.text import Vocabulary, collate, equal_lengths, truncation
from representer.errors import ArgumentError

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
    lengths=st.lists(st.integers(0, 9), max_size=200),
    batch_size=st.integers(1, 20),
    seed=st.integers(-5, 2**64),
    epoch=st.integers(0, 100),
)
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


def test_batches_and_order_differ_between_seeds_and_epochs():
    lengths = [i % 3 for i in range(90)]
    orders = [equal_lengths(lengths, 8, seed, epoch) for seed in range(3) for epoch in range(3)]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])
    together = [{frozenset(batch) for batch in batches} for batches in orders]
    assert all(a != b for i, a in enumerate(together) for b in together[:i])
    assert [lengths[batch[0]] for batch in orders[0]] != sorted(lengths[b[0]] for b in orders[0])


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
