"""Cells that could be run as formulas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from representer.data.tables.files import guard_formula, unguard_formula


@pytest.mark.parametrize(
    "cell", ["=cmd|' /C calc'!A0", "+SUM(A1)", "-ve", "@user hi", "\t=1+1", "\r=1", "=1+1", "'=1"]
)
def test_a_formula_gets_an_apostrophe(cell):
    assert guard_formula(cell) == f"'{cell}"


@pytest.mark.parametrize(
    "cell", ["", "-1.5", "+3", "-1e5", "+", "--", "a=b", "'tis", "C=O", "-inf"]
)
def test_numbers_signs_and_texts_are_not_changed(cell):
    assert guard_formula(cell) == unguard_formula(cell) == cell


@given(st.text(st.sampled_from("=+-@'\t\ra1. ")))
def test_the_guard_is_undone_exactly(cell):
    assert unguard_formula(guard_formula(cell)) == cell
