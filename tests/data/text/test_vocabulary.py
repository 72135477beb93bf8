from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from representer.data.text import Vocabulary
from representer.errors import ArgumentError, DataError

DOCUMENTS = [["b", "a", "b"], ["d", "a", "b"], ["c"]]


def test_words_are_ordered_by_frequency_and_alphabet():
    assert Vocabulary.build(DOCUMENTS).words == ("<pad>", "<unk>", "b", "a", "c", "d")


def test_rare_words_and_those_beyond_the_size_are_unknown():
    assert Vocabulary.build(DOCUMENTS, min_count=2).words[2:] == ("b", "a")
    small = Vocabulary.build(DOCUMENTS, max_size=3)
    assert len(small) == 3
    assert small.encode(["b", "a", "zebra"]) == [2, Vocabulary.UNKNOWN, Vocabulary.UNKNOWN]


def test_special_tokens_in_a_document_are_unknown_words():
    vocabulary = Vocabulary.build([["<pad>", "<unk>", "a"]])
    assert vocabulary.words == ("<pad>", "<unk>", "a")
    assert vocabulary.encode(["<pad>", "<unk>", "a"]) == [1, 1, 2]
    assert "<pad>" not in vocabulary
    assert "a" in vocabulary
    assert "b" not in vocabulary


@given(st.lists(st.lists(st.text(min_size=1, max_size=4), max_size=6), max_size=6))
def test_encoding_and_serialization_round_trip(documents):
    vocabulary = Vocabulary.build(documents)
    copy = Vocabulary.from_json(vocabulary.to_json())
    assert copy == vocabulary
    assert hash(copy) == hash(vocabulary)
    for document in documents:
        known = ["<unk>" if token in Vocabulary.MARKS else token for token in document]
        assert copy.decode(copy.encode(document)) == known


def test_repr_shows_the_number_of_words():
    assert repr(Vocabulary.build([["größer", "😀"]])) == "Vocabulary(4 words)"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "17",
        "[" * 99_999,
        '{"words": "abc"}',
        '{"words": [1]}',
        '{"words": ["a"]}',
        '{"words": ["<pad>", "<unk>", "a", "a"]}',
        '{"words": ["<unk>", "<pad>"]}',
    ],
)
def test_invalid_vocabularies_are_rejected(text):
    with pytest.raises(DataError, match=r"v\.json: is not a vocabulary"):
        Vocabulary.from_json(text, file="v.json")


@pytest.mark.parametrize("limits", [{"min_count": 0}, {"max_size": 2}])
def test_invalid_limits_are_rejected(limits):
    with pytest.raises(ArgumentError, match="or more"):
        Vocabulary.build(DOCUMENTS, **limits)
