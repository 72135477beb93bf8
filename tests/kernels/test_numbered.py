"""Tokens and codes as numbers."""

from __future__ import annotations

import numpy as np
import pytest

from representer.kernels.numbered import CodeIndex, Numbered


def test_characters_of_words_are_numbered_as_in_strings():
    words = ["ab", "b", "", "\U0001f600"]
    found, expected = Numbered.of_characters(words), Numbered.of(f" {word} " for word in words)
    assert found.tokens == expected.tokens
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.lengths, expected.lengths)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 200])
def test_every_code_has_its_position_and_no_other_code_has_one(count):
    rng = np.random.default_rng(0)
    codes = np.unique(rng.integers(0, 2**62, 2 * count))
    chosen = rng.permutation(len(codes)) < count
    found = CodeIndex(codes[chosen]).positions(codes)
    np.testing.assert_array_equal(found[chosen], np.arange(chosen.sum()))
    assert (found[~chosen] == -1).all()


def test_lists_are_the_sequences():
    sequences = [["a", "b", "a"], [], ["c"]]
    assert Numbered.of(sequences).lists() == sequences
    assert Numbered.of(sequences).lists([7, 8, 9]) == [[7, 8, 7], [], [9]]
