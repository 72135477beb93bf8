from __future__ import annotations

import pytest

from representer.data.tables import LabelMap
from representer.data.tables.files import guard_formula
from representer.data.tables.labels import alike
from representer.errors import ArgumentError, DataError


def test_classes_are_sorted_numerically_if_they_are_integers():
    assert LabelMap.build(["b", "a", "b"]).names == ("a", "b")
    assert LabelMap.build(["10", "9", "-1"]).names == ("-1", "9", "10")
    assert LabelMap.build(["10", "9", "x"]).names == ("10", "9", "x")
    assert LabelMap.build(["١", "2"]).names == ("2", "١")


def test_a_label_is_encoded_as_its_position():
    labels = LabelMap(("neg", "pos"))
    assert [labels.encode(name) for name in ("pos", "neg")] == [1, 0]
    assert len(labels) == 2


def test_an_unknown_label_is_rejected_with_location_and_suggestion():
    with pytest.raises(DataError) as error:
        LabelMap(("negative", "positive")).encode("Positve", file="f.csv", line=7)
    assert str(error.value) == (
        "f.csv, line 7: the label 'Positve' is not one of the 2 classes: 'negative', 'positive'. "
        "Did you mean 'positive'? Correct the label or remove the row."
    )


@pytest.mark.parametrize("names", [(), ("a", "a"), ("a", "")])
def test_empty_and_duplicate_names_are_rejected(names):
    with pytest.raises(ArgumentError, match="distinct names"):
        LabelMap(names)


def test_a_guarded_label_is_recognized():
    labels = LabelMap(("-ve", "=x", "+"))
    assert [labels.encode(guard_formula(name)) for name in labels.names] == [0, 1, 2]
    assert LabelMap(("=x", "'=x")).encode("'=x") == 1  # an exact name comes first


def test_labels_that_differ_in_case_or_blanks_alone_are_noted():
    assert alike(["neg", "Pos", "pos"]).startswith("The classes 'Pos' and 'pos' differ in case")
    assert alike(["a", "a "])
    assert alike(["a", "b", 1, None, "A1"]) == ""
