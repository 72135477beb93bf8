from __future__ import annotations

import time

from representer.data.tables.files import did_you_mean, listing


def test_long_names_and_long_lists_are_truncated():
    assert listing(["a", "b"]) == "'a', 'b'"
    assert listing(["x" * 50]) == f"'{'x' * 37}...'"
    assert listing(list("abcde"), most=2) == "'a', 'b' and 3 more"


def test_the_closest_choice_is_suggested_ignoring_case():
    assert did_you_mean("lable", ["Text", "Label"]) == "Did you mean 'Label'? "
    assert did_you_mean("zebra", ["Text", "Label"]) == ""


def test_the_time_of_a_suggestion_is_bounded():
    """Texts are compared in time quadratic in their length."""
    long = ["ab" * 20_000 + str(i) for i in range(100)]
    start = time.process_time()
    assert did_you_mean("ba" * 20_000, [*long, "label"]) == ""
    assert did_you_mean("lable", [*long, "label"]) == "Did you mean 'label'? "
    assert time.process_time() - start < 1
