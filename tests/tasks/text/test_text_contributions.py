"""The contributions of the n-grams sum to the score of the network."""

from __future__ import annotations

import pytest

from representer.tasks.text.text_contributions import Contributions, as_table, contributions
from tasks.text.test_text_explain import CASES, trained_with

LINE = ["the", "wave", "unheard", "moon", "moon", "old", "tide"]


@pytest.mark.parametrize(("cell", "options"), CASES.values(), ids=CASES)
def test_the_contributions_sum_to_the_score_of_a_forward_pass(cell, options):
    result = contributions(trained_with(cell, **options), LINE)
    assert result.total == pytest.approx(result.score, abs=1e-10, rel=1e-10)
    assert len(result.ngrams) == len(LINE)


def test_the_ngrams_are_the_windows_of_the_filters():
    trained = trained_with("rkm-cifg", filter_length=3)
    texts = [text for text, _ in contributions(trained, LINE[:4]).ngrams]
    assert texts == ["the", "the wave", "the wave unheard", "wave unheard moon"]
    dilated = contributions(trained_with("rkm-cifg", filter_length=2, dilation=2), LINE[:4])
    assert [text for text, _ in dilated.ngrams] == ["the", "wave", "the unheard", "wave moon"]


def test_other_networks_are_explained_by_single_words():
    result = contributions(trained_with("rkm-cifg", filter_length=2, num_layers=2), LINE)
    assert [text for text, _ in result.ngrams] == LINE


def test_the_table_lists_the_largest_first_and_sums_up_the_others():
    ngrams = [("a", 0.5), ("a b", -2.0), ("b c", 1.0), ("c", 0.25)]
    lines = as_table(Contributions("sea", 0.9, ngrams, 0.125, -0.125), 2).splitlines()
    assert [line.split()[-1] for line in lines] == [
        "-2.000000", "+1.000000", "+0.750000", "+0.125000", "-0.125000", "-0.125000"
    ]  # fmt: skip
    assert lines[2].startswith("  2 other n-grams ")
    assert lines[-1].startswith('  score of the network for "sea" ')
