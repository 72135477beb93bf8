from __future__ import annotations

import time
import tracemalloc
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from representer.data.text import tokenize
from representer.errors import ArgumentError


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
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
    ],
)
def test_words_numbers_and_marks_are_tokens(text, tokens):
    assert tokenize(text) == tokens


@given(st.text())
def test_only_whitespace_is_removed(text):
    def solid(string: str) -> str:
        return "".join(string.split())

    composed = unicodedata.normalize("NFC", text.replace("’", "'")).lower()
    assert solid("".join(tokenize(text))) == solid(composed)


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


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello, World!", ["hello", ",", "world", "!"]),
        ("a library<br>line", ["a", "liary", "line"]),
        ("price 7.50", ["price", "0", ".", "0"]),
        ("nan infinity 1e5 12", ["0", "0", "0", "0"]),
        ("fruit, e.g., apples i.e. these", ["fruit", ",", "apples", "these"]),
        ("U.S. (really)?", ["u", ".", "s", ".", "(", "really", ")", "?"]),
        ("don't café", ["don", "t", "caf"]),
        ("BR stays", ["br", "stays"]),
    ],
)
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
