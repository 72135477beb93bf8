"""Running text: its files, lines, words and streams."""

from __future__ import annotations

import lzma

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from representer.data.language import (
    LanguageVocabulary,
    count_tokens,
    cut,
    encode_lines,
    find_parts,
    fixed_segments,
    fold,
    text_lines,
    tokens_of_line,
    topics,
    variable_segments,
)
from representer.data.text import Vocabulary
from representer.errors import ArgumentError, DataError

# The parts of a text: found by their names, or cut.


def write(folder, **texts):
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("names", [
    ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"),
    ("wiki.train.tokens", "wiki.dev.tokens", "wiki.test.tokens"),
    ("train", "val", "test"),
    ("my_train.txt", "my-valid.txt", "TEST.txt"),
])  # fmt: skip
def test_parts_are_found_by_their_names(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("a\n")
    (tmp_path / "README.md").write_text("train valid test")
    (tmp_path / "training_notes.txt").write_text("no part")
    found = find_parts(tmp_path)
    assert [found[part].name for part in ("train", "valid", "test")] == list(names)


def test_missing_and_ambiguous_parts_are_rejected(tmp_path):
    write(tmp_path, a__train__txt="a", b__train__txt="a", a__test__txt="a")
    with pytest.raises(DataError, match=r"one file of the train part; found a.train.txt, b.train"):
        find_parts(tmp_path)
    (tmp_path / "b.train.txt").unlink()
    with pytest.raises(DataError, match=r"valid part; found none. Name the files: .* --valid"):
        find_parts(tmp_path)


def test_a_text_is_split_at_lines_in_order():
    lines = [str(i) for i in range(20)]
    assert cut(lines, (0.7, 0.1, 0.2)) == [[*range(14)], [14, 15], [16, 17, 18, 19]]
    assert cut(lines, (0.8, 0.2)) == [[*range(16)], [16, 17, 18, 19]]
    assert cut(lines, (1.0,)) == [[*range(20)]]


def test_a_text_of_two_lines_cannot_be_split():
    with pytest.raises(DataError, match="2 lines cannot be split into 3 parts"):
        cut(["a", "b"], (0.8, 0.1, 0.1))
    assert cut(["a", "b", "c"], (0.8, 0.1, 0.1)) == [[0], [1], [2]]


def test_copies_of_a_line_are_in_one_part_whatever_its_case_and_spaces():
    lines = ["a b", "", "c", "A  b", "d", "e", "c", "f", "", "a b"]
    assert cut(lines, (0.6, 0.2, 0.2)) == [[0, 1, 2, 3, 6, 9], [4, 5], [7, 8]]
    shuffled = [str(i % 60) for i in np.random.default_rng(0).permutation(600)]
    parts = [{shuffled[row] for row in part} for part in cut(shuffled, (0.8, 0.1, 0.1))]
    assert [len(part) for part in parts] == [48, 6, 6]
    assert len(set.union(*parts)) == 60


def test_of_few_different_lines_every_part_has_one_and_of_fewer_copies_are_parted(capsys):
    assert cut(["a"] * 8 + ["b", "c"], (0.4, 0.3, 0.3)) == [[*range(8)], [8], [9]]
    assert cut(["a", "b"] + ["c"] * 8, (0.8, 0.1, 0.1)) == [[0], [1], [*range(2, 10)]]
    assert not capsys.readouterr().err
    assert cut(["a", "b"] * 5, (0.8, 0.1, 0.1)) == [[*range(8)], [8], [9]]
    assert "so few objects differ" in capsys.readouterr().err


# The vocabulary of a running text: the end of a line first, then unknown, then by frequency.


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


# Tokens of lines: words, characters, and end-of-line tokens.


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


def test_compressed_text_is_read_and_binary_is_rejected(tmp_path):
    packed = tmp_path / "a.txt.xz"
    packed.write_bytes(lzma.compress("één\ntwee\n".encode()))
    assert list(text_lines(packed)) == ["één\n", "twee\n"]
    (tmp_path / "b.txt").write_bytes(b"ab\0cd\n")
    with pytest.raises(DataError, match="NUL byte at character 3"):
        list(text_lines(tmp_path / "b.txt"))


# Streams and segments: every token once, in order, with the next token as target.


@given(st.integers(2, 60), st.integers(1, 8))
def test_streams_contain_the_text_in_order_and_targets_are_the_next_tokens(length, rows):
    tokens = torch.arange(length)
    if length - 1 < rows:
        with pytest.raises(DataError, match=f"{length} tokens are too few for {rows} streams"):
            fold(tokens, rows)
        return
    inputs, targets = fold(tokens, rows)
    steps = (length - 1) // rows
    assert inputs.shape == targets.shape == (steps, rows)
    assert inputs.T.flatten().tolist() == list(range(steps * rows))
    assert (targets == inputs + 1).all()


def test_a_batch_size_of_zero_is_rejected():
    with pytest.raises(ArgumentError, match="batch_size is 0; expected 1 or more"):
        fold(torch.arange(9), 0)


def covered(segments):
    return [step for start, length in segments for step in range(start, start + length)]


@given(st.integers(1, 300), st.integers(1, 80), st.integers(0, 9), st.integers(0, 9))
def test_segments_cover_every_step_once_and_in_order(steps, length, seed, epoch):
    assert covered(fixed_segments(steps, length)) == list(range(steps))
    variable = variable_segments(steps, length, seed, epoch)
    assert covered(variable) == list(range(steps))
    assert all(size >= 5 for _, size in variable[:-1])
    assert variable == variable_segments(steps, length, seed, epoch)


def test_fixed_segments_have_equal_length_except_the_last():
    assert fixed_segments(10, 4) == [(0, 4), (4, 4), (8, 2)]


def test_segments_differ_between_epochs_and_seeds():
    kinds = {tuple(variable_segments(5000, 70, s, e)) for s in range(3) for e in range(3)}
    assert len(kinds) == 9


@pytest.mark.parametrize("segments", [fixed_segments, lambda t, n: variable_segments(t, n, 0, 0)])
def test_a_segment_has_at_least_one_step(segments):
    with pytest.raises(ArgumentError, match="unroll is 0; expected 1 or more"):
        segments(10, 0)


# The help topics: a text of some size, without repetitions, in any Python.


def test_no_line_occurs_twice_and_none_is_empty():
    lines, _ = topics()
    assert len(set(lines)) == len(lines)
    assert all(len(line.split()) > 3 for line in lines)


def test_lines_are_lower_case_words_and_marks_separated_by_spaces():
    lines, _ = topics()
    assert all(line == line.lower() for line in lines)
    words = {word for line in lines for word in line.split()}
    assert all(word.replace("_", "a").isalnum() or len(word) == 1 for word in words)
