from __future__ import annotations

import pytest

from representer.data.text import PRESETS, Preprocessing
from representer.errors import ArgumentError


def test_long_documents_are_truncated_and_short_ones_dropped():
    result = Preprocessing(max_tokens=3, min_tokens=2).apply(["a b c d", "a", "a b", "a b c"])
    assert result.documents == [["a", "b", "c"], ["a", "b"], ["a", "b", "c"]]
    assert (result.kept, result.truncated, result.too_short) == ([0, 2, 3], 1, [1])


def test_the_preset_of_the_authors_drops_five_tokens_and_truncates_at_three_hundred():
    result = PRESETS["authors_code"].apply(["a " * 5, "a " * 6, "a " * 301])
    assert result.too_short == [0]
    assert [len(document) for document in result.documents] == [6, 300]


def test_the_default_drops_only_documents_without_tokens():
    assert PRESETS["paper"].apply(["a", " ", "b"]).too_short == [1]


@pytest.mark.parametrize("limits", [{"max_tokens": 0}, {"min_tokens": -1}])
def test_invalid_limits_are_rejected(limits):
    with pytest.raises(ArgumentError, match="_tokens is"):
        Preprocessing(**limits)


def test_a_maximum_below_the_minimum_is_rejected():
    with pytest.raises(ArgumentError, match="at least min_tokens"):
        Preprocessing(max_tokens=3, min_tokens=4)
