"""Numbers of the report have sensible digits."""

from __future__ import annotations

import pytest

from representer.report.metrics import decimals_of, headings, points, rounded, signed, slug


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (0.58649, 3, "0.586"), (1234.5, 3, "1234"), (0.0, 3, "0"), (0.91, 2, "0.91"),
        (9.9, 2, "9.9"),
    ],
)  # fmt: skip
def test_a_number_has_so_many_significant_digits(number, digits, text):
    assert rounded(number, digits) == text


def test_signs_are_typographic_and_zero_has_none():
    assert signed(-0.126, 2) == "−0.13"
    assert signed(0.126, 2) == "+0.13"
    assert signed(-0.001, 2) == "0.00"
    assert points(-0.012) == "−1.2"


@pytest.mark.parametrize(
    ("largest", "decimals"), [(12.0, 2), (1.7, 2), (0.3, 2), (0.03, 3), (0.004, 4)]
)
def test_the_largest_of_some_numbers_has_two_digits(largest, decimals):
    assert decimals_of([largest / 50, -largest]) == decimals
    assert decimals_of([0.0]) == 2


def test_the_contents_are_the_sections_of_the_page():
    assert slug("Test results: log S (mol/l)") == "test-results-log-s-mol-l"
    page = '<h2 id="a">A &amp; B</h2><h2>not a section</h2><h2 id="c">C</h2>'
    assert headings(page) == [("a", "A &amp; B"), ("c", "C")]
