"""A part of the suite of wrong command lines."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_wrong_words_are_refused_by_name(bench, failures):
    suite = bench("faults.command_words")
    suite.setup()
    assert failures(suite.cases(1, 0.1)) == []


def test_the_suite_has_a_wrong_word_for_every_option(bench):
    names = [case.name for case in bench("faults.command_words").cases(0, 1.0)]
    assert len(names) > 1000
    assert "fit text: --hidden-size without a value" in names
