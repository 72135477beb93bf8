"""A vocabulary that does not fit is refused before anything is made."""

from __future__ import annotations

import os

import pytest

from representer.errors import ArgumentError
from representer.estimators.language_parameters import LanguageParameters
from representer.estimators.language_training import available, check_memory


def test_too_many_tokens_are_refused_with_how_much_they_need():
    parameters = LanguageParameters(hidden_size=400)
    with pytest.raises(
        ArgumentError, match=r"5,000,000 tokens of 400 .* 63\.9 GiB .* 2\.0 GiB are"
    ):
        check_memory(parameters, 5_000_000, 2 * 2**30)


def test_what_fits_is_let_through_and_so_is_a_system_that_does_not_say():
    check_memory(LanguageParameters(), 10_000, 2**30)
    check_memory(LanguageParameters(), 10**12, None)


def test_this_system_says_more_than_nothing():
    free, pages = available(), os.sysconf("SC_PHYS_PAGES")
    machine = pages * os.sysconf("SC_PAGE_SIZE")
    assert free is None or machine / 500 < free <= machine
