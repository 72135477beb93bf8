"""Words: tokens, the vocabulary, their vectors and co-occurrence."""

from __future__ import annotations

import lzma
import random
import sysconfig
import time
import tracemalloc
import unicodedata
from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from representer.data.tables import Dropped
from representer.data.text import (
    Table,
    Vocabulary,
    WordVectors,
    code_lines,
    collate,
    cooccurrence_vectors,
    equal_lengths,
    length_buckets,
    read_labeled_lines,
    tokenize,
    tokenize_pieces,
    truncation,
)
from representer.data.text import words as stored
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


@given(
    lengths=st.lists(st.integers(0, 50), max_size=200), batch_size=st.integers(1, 20),
    seed=st.integers(-5, 2**64), epoch=st.integers(0, 100), bucket=st.integers(1, 10),
)  # fmt: skip
def test_every_document_is_in_exactly_one_batch(lengths, batch_size, seed, epoch, bucket):
    batches = length_buckets(lengths, batch_size, seed, epoch, bucket=bucket)
    assert sorted(chain.from_iterable(batches)) == list(range(len(lengths)))
    sizes = sorted(map(len, batches), reverse=True)
    assert all(size == batch_size for size in sizes[:-1])
    assert batches == length_buckets(lengths, batch_size, seed, epoch, bucket=bucket)


def skewed(count: int) -> list[int]:
    rng = random.Random(0)
    return [int(rng.lognormvariate(3, 1)) + 1 for _ in range(count)]


def padding(lengths: list[int], batches: list[list[int]]) -> float:
    padded = sum(max(lengths[i] for i in batch) * len(batch) for batch in batches)
    return padded / sum(lengths)


def test_texts_of_like_lengths_share_a_batch():
    lengths = skewed(1000)
    assert padding(lengths, length_buckets(lengths, 10, 0, 0)) < 1.15  # 3.2 in a random order


def test_batches_are_in_random_order():
    lengths = list(range(1000))
    longest = [max(batch) for batch in length_buckets(lengths, 10, 0, 0)]
    rising = sum(a < b for a, b in pairwise(longest))
    assert 30 < rising < 70


def test_the_order_differs_between_seeds_and_epochs():
    lengths = skewed(300)
    orders = [length_buckets(lengths, 8, seed, epoch) for seed in range(3) for epoch in range(3)]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])


def test_the_order_of_an_epoch_is_the_same_on_every_machine():
    assert length_buckets([3, 1, 2, 5, 4, 1], 2, seed=7, epoch=1) == [[5, 1], [4, 3], [2, 0]]


@pytest.mark.parametrize("sizes", [{"batch_size": 0}, {"bucket": 0}])
def test_invalid_sizes_are_rejected(sizes):
    with pytest.raises(ArgumentError, match="1 or more"):
        length_buckets([1, 2], **{"batch_size": 1, "seed": 0, "epoch": 0, **sizes})


# Texts as batches: padding, lengths, buckets.


BATCHES_DOCUMENTS = st.lists(st.lists(st.integers(1, 99), max_size=9), min_size=1, max_size=6)


@given(documents=BATCHES_DOCUMENTS, max_length=st.one_of(st.none(), st.integers(1, 9)))
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


def test_the_order_of_batches_of_an_epoch_is_the_same_on_every_machine():
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


# Word vectors from co-occurrences: their inner products are those of the definition.


COOCCURRENCE_WORDS = 6
COOCCURRENCE_DOCUMENTS = [[2, 3, 4, 2], [3, 2], [5], [4, 5, 2, 3, 3, 4, 5, 2, 4]]


def information() -> np.ndarray:
    """Return positive pointwise mutual information, counted pair by pair."""
    counts = np.zeros((COOCCURRENCE_WORDS, COOCCURRENCE_WORDS))
    for document in COOCCURRENCE_DOCUMENTS:
        for i, one in enumerate(document):
            for j, other in enumerate(document):
                if 0 < abs(i - j) <= 5:
                    counts[one, other] += 1 / abs(i - j)
    context = counts.sum(0) ** 0.75
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = counts / counts.sum(1)[:, None] / (context / context.sum())
    return np.where(counts > 0, np.log(np.where(counts > 0, shares, 1)).clip(0), 0)


def test_vectors_are_the_scaled_singular_vectors_of_the_definition():
    found = cooccurrence_vectors(COOCCURRENCE_DOCUMENTS, COOCCURRENCE_WORDS, 3, seed=0)
    u, s, _ = np.linalg.svd(information())
    expected = u[:, :3] * np.sqrt(s[:3])
    expected[2:] /= np.sqrt(np.mean(expected[2:] ** 2, axis=1, keepdims=True))
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-5)
    assert not found[:2].any()  # padding and the unknown word stand nowhere
    assert found.dtype == np.float32


def test_more_dimensions_than_words_and_no_pairs_give_zeros():
    wide = cooccurrence_vectors(COOCCURRENCE_DOCUMENTS, COOCCURRENCE_WORDS, 9, seed=0)
    assert wide.shape == (COOCCURRENCE_WORDS, 9)
    assert not wide[:, COOCCURRENCE_WORDS - 1 :].any()
    assert wide[:, : COOCCURRENCE_WORDS - 2].any(0).all()
    assert not cooccurrence_vectors([[2], [3], []], COOCCURRENCE_WORDS, 4, seed=0).any()
