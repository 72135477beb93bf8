"""The vocabulary and the word numbers of texts in a file."""

from __future__ import annotations

from representer.data.text import text_store


def test_words_after_the_largest_number_of_distinct_ones_are_unknown(monkeypatch):
    monkeypatch.setattr(text_store, "DISTINCT", 3)
    monkeypatch.setattr(text_store, "_BLOCK", 2)
    texts = ["a b a", "c a", "d c <unk>", ""]
    vocabulary, encoded = text_store.stored_documents(texts, str.split, 1)
    assert vocabulary.words == ("<pad>", "<unk>", "a", "c", "b")
    assert [*encoded] == [[2, 4, 2], [3, 2], [1, 3, 1], []]
    assert text_store.document_lengths(encoded) == [3, 2, 3, 0]


def test_the_vocabulary_has_the_most_frequent_words(monkeypatch):
    monkeypatch.setattr(text_store, "LARGEST", 4)
    vocabulary, encoded = text_store.stored_documents(["a b b c c c", "c d"], str.split, 1)
    assert vocabulary.words == ("<pad>", "<unk>", "c", "b")
    assert [*encoded] == [[1, 3, 3, 2, 2, 2], [2, 1]]
