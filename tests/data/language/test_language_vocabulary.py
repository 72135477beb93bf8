"""The vocabulary of a running text: the end of a line first, then unknown, then by frequency."""

from __future__ import annotations

import pytest

from representer.data.language import LanguageVocabulary
from representer.data.text import Vocabulary
from representer.errors import DataError


def test_frequent_tokens_have_small_ids():
    vocabulary = LanguageVocabulary.from_counts({"b": 1, "a": 1, "c": 5, "<eos>": 9})
    assert vocabulary.words == ("<eos>", "<unk>", "c", "a", "b")
    assert vocabulary.encode(["c", "z"]) == [2, LanguageVocabulary.UNKNOWN]
    assert repr(vocabulary) == "LanguageVocabulary(5 words)"


def test_the_vocabulary_round_trips_and_is_not_accepted_for_documents():
    vocabulary = LanguageVocabulary.from_counts({"a": 1})
    assert LanguageVocabulary.from_json(vocabulary.to_json()) == vocabulary
    assert vocabulary != Vocabulary.build([["a"]])
    with pytest.raises(DataError, match="is not a vocabulary"):
        Vocabulary.from_json(vocabulary.to_json())
