"""Words: tokens, the vocabulary, their vectors and co-occurrence."""

from __future__ import annotations

import time
import tracemalloc
import unicodedata
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from representer.data.text import Vocabulary, WordVectors, tokenize, tokenize_pieces
from representer.data.text.words import WORDS
from representer.errors import ArgumentError, DataError, ShapeError


@pytest.mark.parametrize(("text", "tokens"), [
    ("Hello, World!", ["hello", ",", "world", "!"]),
    ("It costs 1,000.50 or 3.", ["it", "costs", "1,000.50", "or", "3", "."]),
    ("don't can’t we'll cat's", ["do", "n't", "ca", "n't", "we", "'ll", "cat", "'s"]),
    ("o'clock 'quoted'", ["o'clock", "'", "quoted", "'"]),
    ("wait... what -- no?!", ["wait", "...", "what", "--", "no", "?", "!"]),
    ("state-of-the-art", ["state", "-", "of", "-", "the", "-", "art"]),
    ("b2b read_file 10th", ["b2b", "read", "_", "file", "10", "th"]),
    ("Größe cafe\u0301 ЁЖ", ["größe", "café", "ёж"]),
    ("हिन्दी में", ["हिन्दी", "में"]),
    ("这部电影IMDb 8.5分!", [*"这部电影", "imdb", "8.5", "分", "!"]),
    ("とても良いカメラーです。", [*"とても良いカメラーです。"]),
    ("が か\u3099", ["が", "が"]),
    ("ดีมาก ที่", ["ดี", "ม", "า", "ก", "ที่"]),
    ("ကောင်း ល្អ", ["ကော", "င်း", "ល្", "អ"]),
    ("아주 좋은 영화", ["아주", "좋은", "영화"]),
    ("€5 😀", ["€", "5", "😀"]),
    (" \t\n", []),
    ("", []),
])  # fmt: skip
def test_words_numbers_and_marks_are_tokens(text, tokens):
    assert tokenize(text) == tokens


@given(st.text())
def test_tokens_are_not_empty_and_contain_no_whitespace(text):
    for token in tokenize(text) + tokenize(text, "leam"):
        assert token
        assert not any(character.isspace() for character in token)


@pytest.mark.parametrize("marks", ["\u0301\u0323", "\U0001d165\U0001d16d"])
def test_a_long_run_of_combining_marks_takes_little_time(marks):
    """Sorting them takes quadratic time: 160,000 took half a minute."""
    started = time.process_time()
    tokenize("a" + marks * 20_000)
    assert time.process_time() - started < 0.5  # 0.05 s, and 0.6 s without the limit


def test_up_to_30_consecutive_combining_marks_are_normalized():
    marks = "\u0301\u0323" * 15
    assert tokenize("a" + marks) == [unicodedata.normalize("NFC", "a" + marks)]


def test_the_time_is_linear_in_the_length():
    for nasty in ("a", "'", "a'", "1.", "n't", "\u0301", "a\u0301", "-"):
        start = time.perf_counter()
        tokenize(nasty * 60_000)
        assert time.perf_counter() - start < 2, nasty


@pytest.mark.parametrize(("text", "tokens"), [
    ("Hello, World!", ["hello", ",", "world", "!"]),
    ("a library<br>line", ["a", "liary", "line"]),
    ("price 7.50", ["price", "0", ".", "0"]),
    ("nan infinity 1e5 12", ["0", "0", "0", "0"]),
    ("fruit, e.g., apples i.e. these", ["fruit", ",", "apples", "these"]),
    ("U.S. (really)?", ["u", ".", "s", ".", "(", "really", ")", "?"]),
    ("don't café", ["don", "t", "caf"]),
    ("BR stays", ["br", "stays"]),
])  # fmt: skip
def test_the_published_preprocessing_is_reproduced(text, tokens):
    assert tokenize(text, "leam") == tokens


def test_tokenized_text_is_split_only_at_whitespace():
    assert tokenize(" It 's  n't -lrb- a...\tB ", "blanks") == [
        "It",
        "'s",
        "n't",
        "-lrb-",
        "a...",
        "B",
    ]
    assert tokenize(" ", "blanks") == []


def test_an_unknown_scheme_is_rejected():
    with pytest.raises(ArgumentError, match="one of words, blanks, leam"):
        tokenize("a", "bytes")  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["a", "a1", "1,", "a'b", "é\u0301"])
def test_a_long_word_takes_no_memory_for_backtracking(unit):
    """It took 160 bytes a character."""
    text = unit * (2**16 // len(unit))
    tokenize(text)  # compiles the pattern
    tracemalloc.start()
    try:
        assert len(tokenize(text)) <= 2
        assert tracemalloc.get_traced_memory()[1] < 20 * len(text)
    finally:
        tracemalloc.stop()


def test_contractions_are_divided_before_their_n():
    assert tokenize("don't shan't n't ann'to isn't'a") == [
        "do", "n't", "sha", "n't", "n't", "ann'to", "is", "n't", "'", "a",
    ]  # fmt: skip


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


@pytest.mark.parametrize("text", [
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
])  # fmt: skip
def test_invalid_vocabularies_are_rejected(text):
    with pytest.raises(DataError, match=r"v\.json: is not a vocabulary"):
        Vocabulary.from_json(text, file="v.json")


@pytest.mark.parametrize("limits", [{"min_count": 0}, {"max_size": 2}])
def test_invalid_limits_are_rejected(limits):
    with pytest.raises(ArgumentError, match="or more"):
        Vocabulary.build(DOCUMENTS, **limits)


VECTORS = WordVectors(
    ("cat", "Paris", "NATO", "Cat", "dog"), np.arange(10.0, dtype=np.float32).reshape(5, 2)
)


def vocabulary(*words: str) -> Vocabulary:
    return Vocabulary(("<pad>", "<unk>", *words))


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def test_a_word_uses_its_vector_or_that_of_another_case():
    words = vocabulary("cat", "Cat", "CAT", "paris", "nato", "bird")
    matrix, coverage = VECTORS.align(words, generator())
    expected = VECTORS.matrix[[0, 3, 0, 1, 2]]
    torch.testing.assert_close(matrix[2:7], torch.from_numpy(expected), rtol=0, atol=0)
    assert (coverage.found, coverage.total, coverage.by_case) == (5, 6, 3)
    assert str(coverage) == (
        "5 of 6 words (83.3%) have a vector, 3 of them in another case; "
        "the others start from their characters"
    )


def test_random_rows_do_not_depend_on_the_words_found():
    words = vocabulary("cat", "bird")
    with_cat, _ = VECTORS.align(words, generator())
    without, _ = WordVectors(("dog",), np.ones((1, 2), np.float32)).align(words, generator())
    torch.testing.assert_close(with_cat[3], without[3], rtol=0, atol=0)


def test_coverage_can_be_weighted_by_frequency():
    _, coverage = VECTORS.align(vocabulary("cat", "bird"), generator())
    counts = Counter({"cat": 3, "bird": 1, "not in the vocabulary": 4})
    assert coverage.running(counts) == 3 / 8
    assert coverage.running(Counter()) == 0
    assert coverage.types == 1 / 2


def test_a_matrix_of_another_length_is_rejected():
    with pytest.raises(ShapeError, match=r"shape \(3, 2\); expected \(2, dimensions\)"):
        WordVectors(("a", "b"), np.zeros((3, 2), np.float32))


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf")])
def test_an_invalid_scale_is_rejected(scale):
    with pytest.raises(ArgumentError, match="scale"):
        VECTORS.align(vocabulary("a"), generator(), scale=scale)


ODD = st.text("aZs'’n t.,-_0\u0301\u00c9\u03a3\u0e01\u3042\u2003\x1c\n!") | st.text()


@given(ODD)
def test_pieces_between_spaces_have_the_tokens_of_the_text(text):
    pieces = text.split()
    assert [word for own in tokenize_pieces(pieces) for word in own] == tokenize(text)
    assert [*tokenize_pieces(pieces)] == [tokenize(piece) for piece in pieces]


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_has_the_tokens_of_the_pattern_of_all_languages(text):
    assert tokenize(text) == WORDS.findall(text.lower())
