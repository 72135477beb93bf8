"""Tokens of lines: words, characters, and end-of-line tokens."""

from __future__ import annotations

import lzma

import pytest
import torch

from representer.data.language import (
    LanguageVocabulary,
    count_tokens,
    encode_lines,
    text_lines,
    tokens_of_line,
)
from representer.errors import ArgumentError, DataError


def test_words_are_separated_by_whitespace():
    assert tokens_of_line("  the  N-th\tword \r\n", "word") == ["the", "N-th", "word"]


def test_characters_exclude_the_line_end():
    assert tokens_of_line("a b\t\r\n", "char") == ["a", " ", "b", "\t"]


def test_unknown_levels_are_rejected():
    with pytest.raises(ArgumentError, match=r"level is 'byte'; expected 'word' or 'char'"):
        tokens_of_line("a", "byte")


def test_every_line_ends_with_the_end_token_and_an_empty_one_is_only_that():
    vocabulary = LanguageVocabulary.from_counts(count_tokens(["a b a", ""], "word"))
    assert vocabulary.words == ("<eos>", "<unk>", "a", "b")
    numbers = encode_lines(["b a\n", "\n", "c"], vocabulary, "word")
    assert numbers.tolist() == [3, 2, 0, 0, 1, 0]
    assert numbers.dtype == torch.int64


def test_special_tokens_in_a_text_are_unknown_words():
    vocabulary = LanguageVocabulary.from_counts(count_tokens(["a <unk> <eos> a"], "word"))
    assert vocabulary.words == ("<eos>", "<unk>", "a")
    assert encode_lines(["<eos> <unk> a"], vocabulary, "word").tolist() == [1, 1, 2, 0]


def test_compressed_text_is_read_and_binary_is_rejected(tmp_path):
    packed = tmp_path / "a.txt.xz"
    packed.write_bytes(lzma.compress("één\ntwee\n".encode()))
    assert list(text_lines(packed)) == ["één\n", "twee\n"]
    (tmp_path / "b.txt").write_bytes(b"ab\0cd\n")
    with pytest.raises(DataError, match="NUL byte at character 3"):
        list(text_lines(tmp_path / "b.txt"))
