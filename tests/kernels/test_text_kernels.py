"""Kernels of texts: n-grams, Kneser-Ney weights, recent tokens."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from representer.errors import ArgumentError, KindError
from representer.kernels import StringKernel, text_kernel
from representer.kernels.text_kernel import (
    NgramKernel,
    TextKernel,
    class_ratio,
    inverse_document_frequency,
)
from representer.kernels.token_counts import RecentTokens
from representer.ops import core

# The kernel of n-grams and that of texts, and their explicit features.


RNG = random.Random(0)
STRINGS = ["".join(RNG.choice("abc") for _ in range(RNG.randint(0, 9))) for _ in range(8)]
TEXTS = ["a good film", "a bad film", "good good play", "what a bad play"] * 3
LABELS = np.array([1, 0, 1, 0] * 3)


@pytest.mark.parametrize("orders", [(1,), (2,), (3,), (1, 2, 3), (4, 2)])
@pytest.mark.parametrize("decay", [0.0, 0.3, 1.0])
def test_it_is_the_sum_of_string_kernels_of_its_orders(orders, decay):
    kernel = NgramKernel(orders, decay)
    parts = [StringKernel(n, decay, base="delta", trailing=False)(STRINGS) for n in orders]
    expected = np.sum(np.stack(parts), axis=0)
    np.testing.assert_allclose(kernel(STRINGS), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(STRINGS), np.diag(expected), rtol=1e-12)
    np.testing.assert_allclose(kernel(STRINGS[:3], STRINGS[3:]), expected[:3, 3:], rtol=1e-12)


@pytest.mark.parametrize("max_gap", [0, 1, 2])
def test_gaps_up_to_a_size_are_counted_with_their_decay(max_gap):
    string, count = "abcabca", 0.0
    for i, j, k in itertools.combinations(range(len(string)), 3):
        gaps = k - i - 2
        if string[i] + string[j] + string[k] == "aba" and gaps <= max_gap:
            count += 0.5**gaps
    kernel = NgramKernel((3,), 0.5, max_gap).fit([string])
    columns = [o.column for o in kernel.occurrences(string) if _text(string, o) == "aba"]
    total = kernel.transform([string]).toarray()[0, columns[0]] if columns else 0.0
    assert total == count


def test_occurrences_sum_to_the_features():
    kernel = NgramKernel((1, 2), 0.5).fit(STRINGS)
    for string, row in zip(STRINGS, kernel.transform(STRINGS).toarray(), strict=True):
        total = np.zeros_like(row)
        for each in kernel.occurrences(string):
            total[each.column] += each.weight
        np.testing.assert_allclose(total, row)


def test_a_boundary_may_be_at_the_ends_of_an_ngram_and_not_inside():
    kernel = NgramKernel((3,), boundary=" ").fit([" ab cd "])
    found = {_text(" ab cd ", each) for each in kernel.occurrences(" ab cd ")}
    assert found == {" ab", "ab ", " cd", "cd "}


def test_rare_and_unknown_ngrams_are_left_out_and_counts_are_damped():
    kernel = NgramKernel((1, 2), damped=True).fit(["aab", "aac"], min_count=2)
    features = kernel.transform(["aaaxa"]).toarray()[0]
    assert len(features) == 2  # a and aa; b, c, ab and ac occur in one string
    np.testing.assert_allclose(features, [math.log(5), math.log(3)])


def test_weights_are_those_of_their_formulas():
    counts = NgramKernel((1,)).fit(["aab", "ab", "c"]).transform(["aab", "ab", "c"])
    expected = [math.log(4 / 3) + 1, math.log(4 / 3) + 1, math.log(4 / 2) + 1]
    np.testing.assert_allclose(np.sort(inverse_document_frequency(counts)), np.sort(expected))
    ratio = class_ratio(counts, np.eye(2)[[0, 0, 1]])
    # in class 0, a and b occur in two rows and c in none, plus one each: 3/7, 3/7, 1/7
    p, q = np.array([3, 3, 1]) / 7, np.array([1, 1, 2]) / 4
    np.testing.assert_allclose(np.sort(ratio), np.sort(np.abs(np.log(p / q))))


def test_the_text_kernel_is_the_inner_product_of_its_features():
    kernel = TextKernel(min_count=1, min_characters=1).fit(TEXTS, np.eye(2)[LABELS])
    features = kernel.transform(TEXTS).toarray()
    np.testing.assert_allclose(kernel(TEXTS), features @ features.T, atol=1e-15)
    np.testing.assert_allclose(kernel.diag(TEXTS), 1)
    for text, row in zip(TEXTS, features, strict=True):
        total = np.zeros_like(row)
        joined, found = kernel.occurrences(text)
        for each in found:
            total[each.column] += each.value
        np.testing.assert_allclose(total, row, atol=1e-15)
        assert joined.split() == text.split()


def test_a_fitted_kernel_is_restored_and_damaged_parts_are_refused():
    kernel = TextKernel(min_count=1, min_characters=1).fit(TEXTS, np.eye(2)[LABELS])
    tokens, arrays = kernel.fitted()
    other = TextKernel(min_count=1, min_characters=1).restore(tokens, arrays)
    assert np.array_equal(other.transform(TEXTS).toarray(), kernel.transform(TEXTS).toarray())
    for name, damaged in (
        ("words.1", arrays["words.1"][::-1]),
        ("words.2", arrays["words.2"] + 10**6),
        ("characters.weights", arrays["characters.weights"][1:]),
        ("words.weights", -arrays["words.weights"]),
    ):
        with pytest.raises(ValueError, match="n-grams"):
            TextKernel().restore(tokens, arrays | {name: damaged})
    with pytest.raises(ValueError, match="repeated"):
        TextKernel().restore(tokens | {"words": tokens["words"] * 2}, arrays)


@pytest.mark.parametrize("options", [
    {"orders": ()}, {"orders": (0,)}, {"orders": (1, 9)}, {"orders": "ab"}, {"orders": None},
    {"decay": 2.0}, {"decay": "0.5"}, {"decay": None}, {"max_gap": -1},
])  # fmt: skip
def test_options_out_of_their_range_are_refused(options):
    with pytest.raises(ArgumentError, match=f"{next(iter(options))} is"):
        NgramKernel(**options)


def test_orders_are_several():
    for kernel in (NgramKernel, lambda n: TextKernel(orders=n).fit(TEXTS)):
        with pytest.raises(ArgumentError, match=r"orders is 2; .* 8. For one of them, use \(2,\)"):
            kernel(2)
    array = NgramKernel(np.array([1, 2]), np.int64(0))
    np.testing.assert_array_equal(array(STRINGS), NgramKernel((1, 2))(STRINGS))


def test_tokens_that_are_left_out_are_reported():
    words = [f"w{k}" for k in range(200)]
    with pytest.warns(UserWarning, match="73 of 200 tokens, the rarest, are left out: with n-gr"):
        NgramKernel((1, 8)).fit([words])
    NgramKernel((1, 7)).fit([words])  # warnings are errors


def test_something_else_than_a_sequence_is_refused():
    fitted = TextKernel(min_count=1, min_characters=1).fit(TEXTS)
    for call in (NgramKernel(), NgramKernel().fit, TextKernel().fit, fitted, fitted.transform):
        with pytest.raises(KindError, match=r"X is str; expected a list of.*Put a single string"):
            call("a film")


@pytest.mark.parametrize(("text", "message"), [
    (None, "NoneType; expected a string. Leave it out.$"),
    (float("nan"), "float; expected a string. Leave it out"),
    (np.float64("nan"), "float64; expected a string. Leave it out"),
    (b"b", "bytes; expected a string. Decode it"),
    (3, r"int; expected a string\.$"),
    (["b"], r"list; expected a string\.$"),
    (np.array(["b"]), "ndarray; expected a string. Pass one column"),
])  # fmt: skip
def test_something_else_among_texts_is_refused(text, message):
    fitted = TextKernel(min_count=1, min_characters=1).fit(TEXTS)
    array = np.empty(2, dtype=object)
    array[:] = ["a", text]
    for call in (TextKernel().fit, fitted, fitted.diag, fitted.transform):
        for texts in (["a", text], array):
            with pytest.raises(KindError, match=rf"X\[1\] is {message}"):
                call(texts)


@pytest.mark.parametrize("options", [{"split": 3}, {"min_count": "2"}, {"min_characters": -1}])
def test_options_of_texts_are_checked_when_they_are_fitted(options):
    with pytest.raises(ArgumentError, match=f"{next(iter(options))} is"):
        TextKernel(**options).fit(TEXTS)


def _text(string, occurrence):
    return "".join(string[t] for t in occurrence.where)


def without_core(monkeypatch, call):
    with monkeypatch.context() as patch:
        patch.setattr(core, "MISSING", "left out")
        return call()


def check_same_bits(kernel: TextKernel, texts: list[str], monkeypatch) -> None:
    """Check that the core gives the features of the sparse matrices, in their order."""
    expected = without_core(monkeypatch, lambda: kernel.transform(texts))
    result = kernel.transform(texts)
    assert result.shape == expected.shape
    for name in ("indptr", "indices", "data"):
        ours, theirs = getattr(result, name), getattr(expected, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
@pytest.mark.parametrize("words", [3, 30, 2000])  # sums of up to 8, up to 128 and more squares
@pytest.mark.parametrize("least", [1, 3])
def test_the_core_counts_texts_to_the_last_bit(words, least, monkeypatch):
    draw = random.Random(words)
    names = ["".join(draw.choices("abcdefé", k=draw.randint(1, 7))) for _ in range(300)]
    texts = [" ".join(draw.choices(names, k=words)) for _ in range(12)]
    kernel = TextKernel(min_count=least, min_characters=least).fit(texts)
    asked = [*texts[:6], "", "unknown Ж", names[0], " ".join(names[0] for _ in range(9))]
    check_same_bits(kernel, asked, monkeypatch)
    check_same_bits(kernel, [], monkeypatch)


@pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
def test_a_kernel_of_no_n_grams_has_no_features_with_the_core_either(monkeypatch):
    kernel = TextKernel(min_count=9, min_characters=99).fit(TEXTS)
    check_same_bits(kernel, TEXTS, monkeypatch)


def test_texts_are_computed_in_slices_with_the_same_features(monkeypatch):
    kernel = TextKernel(min_count=1, min_characters=1).fit(TEXTS)
    whole = kernel.transform(TEXTS)
    monkeypatch.setattr(text_kernel, "SLICE", 10)
    sliced = kernel.transform(iter(TEXTS))
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(sliced, name), getattr(whole, name))
    assert kernel.transform([]).shape == (0, kernel.width)


# Recent tokens against their sum, and against a string kernel of order 1.


SIZE = 4
texts = st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=30)
decays = st.floats(0.01, 0.99)


def by_the_sum(text, decay):
    """s after each token ``(T, V)``."""
    return np.array(
        [
            [
                (1 - decay) * sum(decay ** (t - i) for i in range(t + 1) if text[i] == w)
                for w in range(SIZE)
            ]
            for t in range(len(text))
        ]
    )


@given(texts, decays)
@settings(deadline=None)
def test_frequencies_are_the_decayed_sums(text, decay):
    recent, tokens, expected = RecentTokens(decay), np.array(text), by_the_sum(text, decay)
    np.testing.assert_allclose(recent.read(tokens, np.zeros(SIZE)), expected, atol=1e-14)
    np.testing.assert_allclose(recent.after(tokens, np.zeros(SIZE)), expected[-1], atol=1e-14)
    own, mass = recent.of_text(tokens)
    before = np.concatenate([np.zeros((1, SIZE)), expected[:-1]])
    np.testing.assert_allclose(own, before[np.arange(len(text)), text], atol=1e-14)
    np.testing.assert_allclose(mass, before.sum(1), atol=1e-14)


def test_it_is_a_string_kernel_of_order_one():
    text, one_hot = [0, 2, 1, 2, 2, 3, 0], np.eye(SIZE)
    kernel = StringKernel(1, 0.7, trailing=True)
    expected = 0.3 * kernel([one_hot[text]], [one_hot[[w]] for w in range(SIZE)])[0]
    found = RecentTokens(0.7).after(np.array(text), np.zeros(SIZE))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("decay", [0, 1, -0.5, float("nan")])
def test_a_decay_out_of_range_is_refused(decay):
    with pytest.raises(ArgumentError, match=r"decay is .*; expected a number between 0 and 1"):
        RecentTokens(decay)


def test_the_class_ratio_is_its_definition_for_any_number_of_classes():
    rng = np.random.default_rng(0)
    counts = (rng.random((40, 7)) < 0.4).astype(float)
    classes = np.eye(5)[np.arange(40) % 5]
    inside = classes.T @ counts + 1
    outside = (1 - classes.T) @ counts + 1
    p, q = (x / x.sum(1, keepdims=True) for x in (inside, outside))
    expected = np.abs(np.log(p / q)).max(0)
    np.testing.assert_allclose(class_ratio(sparse.csr_array(counts), classes), expected)


def test_the_rarest_n_grams_are_left_out_if_there_are_too_many():
    sequences = [["a", "b"], ["a", "c"], ["a", "b", "c"], ["d"]]
    kernel = NgramKernel((1, 2))
    assert kernel.fit_transform(sequences).shape[1] == 7
    kept = kernel.fit_transform(sequences, 1, most=4)
    np.testing.assert_array_equal(kept.toarray().sum(0), [3, 2, 2, 2])  # a, b, c, and a b
    assert [one.where for one in kernel.occurrences(["a", "b"])] == [(0,), (1,), (0, 1)]


def test_many_classes_have_fewer_n_grams(monkeypatch):
    texts = [f"word{k % 4} and other{k % 4} words" for k in range(16)]
    every = TextKernel().fit_transform(texts, np.eye(4)[np.arange(16) % 4])
    monkeypatch.setattr("representer.kernels.text_kernel.MAX_COEFFICIENTS", every.shape[1])
    fewer = TextKernel().fit_transform(texts, np.eye(4)[np.arange(16) % 4])
    assert 0 < fewer.shape[1] <= every.shape[1] // 4


WORDY = ["ab a ab", "", "b", "ab  ba aab", "a", "ba ab ba", "\u00e9 \U0001f600 ab"] * 2


def test_characters_of_a_text_are_counted_word_by_word_as_in_the_text_as_a_whole():
    kernel = TextKernel(min_count=0, min_characters=0).fit(WORDY)
    _, characters = kernel.views_
    whole = NgramKernel(kernel.characters, damped=True, boundary=" ").restore(
        characters.tokens_, characters.codes_, characters.weights_
    )
    joined = [f" {' '.join(text.split())} " if text.strip() else "" for text in WORDY]
    expected = whole.transform(joined).toarray()
    norms = np.linalg.norm(expected, axis=1, keepdims=True)
    expected /= np.where(norms > 0, norms, 1) * 2**0.5
    assert (expected != 0).any(1).sum() == 12
    width = expected.shape[1]
    np.testing.assert_allclose(kernel.transform(WORDY).toarray()[:, -width:], expected, atol=1e-12)
    again = TextKernel(min_count=0, min_characters=0).fit_transform(WORDY)
    np.testing.assert_allclose(again.toarray()[:, -width:], expected, atol=1e-12)
