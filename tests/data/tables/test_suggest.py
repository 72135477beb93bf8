from __future__ import annotations

from representer.data.tables.suggest import did_you_mean, listing


def test_long_names_and_long_lists_are_truncated():
    assert listing(["a", "b"]) == "'a', 'b'"
    assert listing(["x" * 50]) == f"'{'x' * 37}...'"
    assert listing(list("abcde"), most=2) == "'a', 'b' and 3 more"


def test_the_closest_choice_is_suggested_ignoring_case():
    assert did_you_mean("lable", ["Text", "Label"]) == "Did you mean 'Label'? "
    assert did_you_mean("zebra", ["Text", "Label"]) == ""
