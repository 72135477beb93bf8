"""Numbers in the plain notation."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from representer.checks import is_missing, parse_number


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("-.5", -0.5), ("+2.", 2), ("1e-3", 1e-3), (" 7\t", 7), ("1E5", 1e5), ("007", 7)],
)
def test_plain_numbers_are_read(text, number):
    assert parse_number(text) == number


@pytest.mark.parametrize("text", [
    "", " ", "1_000", "١٢", "１２", "1,000", "0x10", "1e", ".", "--1", "1 2", "\xa07", "nan(1)",
    "ınf",
])  # fmt: skip
def test_everything_else_is_not_a_number(text):
    assert parse_number(text) is None


def test_what_is_not_finite_is_read_as_such():
    assert math.isnan(parse_number("NaN") or 0)
    assert (parse_number("-Infinity"), parse_number("inf")) == (-math.inf, math.inf)
    assert parse_number("1e999") == math.inf


@given(st.floats(allow_nan=False))
def test_every_float_that_python_writes_is_read_back(number):
    assert parse_number(repr(number)) == number


@pytest.mark.parametrize("cell", ["", "NA", "n/a", " NaN ", "none", "NULL", "?"])
def test_words_for_a_missing_value_are_known(cell):
    assert is_missing(cell)


@pytest.mark.parametrize("cell", [None, "0", "-", "no", "nab", "1.5"])
def test_other_cells_are_not_missing(cell):
    assert not is_missing(cell)


def test_a_long_cell_that_is_nearly_a_number_is_refused_in_linear_time():
    """20,000 digits and a letter took 28 seconds."""
    start = time.process_time()
    assert parse_number("1" * 100_000 + "x") is None
    assert parse_number("1" * 100_000 + ".5e") is None
    assert time.process_time() - start < 1
