from __future__ import annotations

import pytest

from representer.data.tables import LabelMap
from representer.data.tables.spreadsheet import guard_formula
from representer.errors import ArgumentError, DataError


def test_classes_are_sorted_and_numbers_by_their_value():
    assert LabelMap.build(["b", "a", "b"]).names == ("a", "b")
    assert LabelMap.build(["10", "9", "-1"]).names == ("-1", "9", "10")
    assert LabelMap.build(["10", "9", "x"]).names == ("10", "9", "x")
    assert LabelMap.build(["١", "2"]).names == ("2", "١")


def test_a_label_becomes_its_position_and_back():
    labels = LabelMap(("neg", "pos"))
    assert [labels.encode(name) for name in ("pos", "neg")] == [1, 0]
    assert labels.decode(1) == "pos"
    assert len(labels) == 2


def test_an_unknown_label_is_refused_with_place_and_the_one_meant():
    with pytest.raises(DataError) as error:
        LabelMap(("negative", "positive")).encode("Positve", file="f.csv", line=7)
    assert str(error.value) == (
        "f.csv, line 7: the label 'Positve' is not one of the 2 classes: 'negative', 'positive'. "
        "Did you mean 'positive'? Correct the label or remove the row."
    )


def test_a_map_is_written_and_read():
    labels = LabelMap(("a", "größer"))
    assert LabelMap.from_json(labels.to_json()) == labels


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"labels": "ab"}', '{"labels": [1]}'])
def test_what_is_no_map_is_refused(text):
    with pytest.raises(DataError, match="is not a list of classes"):
        LabelMap.from_json(text)


@pytest.mark.parametrize("names", [(), ("a", "a"), ("a", "")])
def test_names_that_cannot_be_told_apart_are_refused(names):
    with pytest.raises(ArgumentError, match="distinct names"):
        LabelMap(names)


def test_a_label_that_was_guarded_against_formulas_is_its_class():
    labels = LabelMap(("-ve", "=x", "+"))
    assert [labels.encode(guard_formula(name)) for name in labels.names] == [0, 1, 2]
    assert LabelMap(("=x", "'=x")).encode("'=x") == 1  # an exact name comes first
