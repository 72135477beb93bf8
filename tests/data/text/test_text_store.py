"""The vocabulary and the word numbers of texts in a file."""

from __future__ import annotations

from representer.data import stored


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
