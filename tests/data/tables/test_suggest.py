from __future__ import annotations

from representer.data.tables.suggest import did_you_mean, listing


def test_long_names_are_cut_and_a_long_list_is_counted():
    assert listing(["a", "b"]) == "'a', 'b'"
    assert listing(["x" * 50]) == f"'{'x' * 37}...'"
    assert listing(list("abcde"), most=2) == "'a', 'b' and 3 more"


def test_the_nearest_choice_is_offered_whatever_its_case():
    assert did_you_mean("lable", ["Text", "Label"]) == "Did you mean 'Label'? "
    assert did_you_mean("zebra", ["Text", "Label"]) == ""
