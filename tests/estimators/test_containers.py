"""Strings and targets in the containers that users have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from rdkit import Chem

from representer.errors import ArgumentError, DataError
from representer.estimators import (
    GraphClassifier,
    MoleculeRegressor,
    SignalClassifier,
    TextClassifier,
    TextRegressor,
)
from representer.kernels.sequences import as_sequence, strings_of

TEXTS, LABELS = ["good film", "bad film"] * 6, ["+", "-"] * 6


class Frame:
    """A data frame as pandas has them: columns by position through ``iloc``."""

    def __init__(self, **columns: list[str]) -> None:
        self.columns = [*columns]
        self._table = np.array([*columns.values()], dtype=object).T
        self.shape, self.iloc = self._table.shape, self._table


CONTAINERS = {
    "tuple": tuple(TEXTS), "strings of NumPy": np.array(TEXTS),
    "a column of an array": np.array(TEXTS, dtype=object)[:, None], "Arrow array": pa.array(TEXTS),
    "Arrow chunks": pa.chunked_array([TEXTS[:5], TEXTS[5:]]),
    "Arrow table": pa.table({"text": TEXTS}), "data frame": Frame(text=TEXTS),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_strings_are_read_from_every_container(name):
    found = strings_of(CONTAINERS[name], "texts", "a string")
    assert found == TEXTS
    assert {type(one) for one in found} == {str}


def test_several_columns_and_other_values_are_errors():
    for table in (Frame(title=TEXTS, body=TEXTS), pa.table({"title": TEXTS, "body": TEXTS})):
        with pytest.raises(DataError, match=r"2 columns: title, body; expected one.*X\['title'\]"):
            strings_of(table, "texts", "a string")
    with pytest.raises(DataError, match=r"X\[1\] is 3 of type int; expected a SMILES"):
        strings_of(["C", 3], "SMILES", "a SMILES")
    for value, fix in ((None, "Leave it out"), (float("nan"), "Leave it out"), (b"C", "Decode it")):
        with pytest.raises(DataError, match=rf"X\[1\] is {value!r} of type .* a SMILES. {fix}"):
            strings_of(["C", value], "SMILES", "a SMILES")
    with pytest.raises(DataError, match=r"of type Mol; expected a SMILES. Pass its SMILES"):
        strings_of([Chem.MolFromSmiles("C")], "SMILES", "a SMILES")
    with pytest.raises(DataError, match="X is one string; expected a sequence of texts"):
        strings_of("a", "texts", "a string")


@pytest.mark.parametrize("value", [None, 3, np.array(3)], ids=repr)
def test_a_single_value_is_no_sequence(value):
    options = {"answer": "kernel", "epochs": 1, "random_state": 0, "verbose": 0}
    model = TextClassifier(**options)
    named = rf"is .* of type {type(value).__name__}; expected a sequence"
    graphs, signals = GraphClassifier(**options), SignalClassifier(sampling_rate=100.0, **options)
    for other in (model, graphs, MoleculeRegressor(**options), signals):
        with pytest.raises(DataError, match="X is"):
            other.fit(value, LABELS)
    with pytest.raises(DataError, match=r"validation is of type int; expected \(X, y\)"):
        model.fit(TEXTS, LABELS, validation=3)
    model.fit(TEXTS, LABELS)
    with pytest.raises(DataError, match=f"X {named}"):
        model.predict(value)
    if value is None:
        return
    for call in (model.fit, model.score):
        with pytest.raises(DataError, match=f"y {named}"):
            call(TEXTS, value)
    with pytest.raises(DataError, match=f"groups {named}"):
        model.fit(TEXTS, LABELS, groups=value)
    with pytest.raises(DataError, match=f"sample_weight {named}"):
        model.score(TEXTS, LABELS, value)
    with pytest.raises(DataError, match="X has 12 rows and sample_weight has 2"):
        model.score(TEXTS, LABELS, [1, 2])


def test_complex_numbers_are_no_targets():
    model = MoleculeRegressor(answer="kernel", verbose=0)
    with pytest.raises(DataError, match=r"y\[0\] is .*1j.*; expected a number"):
        model.fit(["C", "CC", "CCC"], np.array([1.0, 2.0, 3.0]) + 1j)


def test_targets_of_arrow_and_torch_have_plain_values():
    assert as_sequence(pa.array(["a", "b"])) == ["a", "b"]
    numbers = as_sequence(torch.tensor([1, 2]))
    assert isinstance(numbers, np.ndarray)
    assert numbers.tolist() == [1, 2]


def test_estimators_take_columns():
    table = pa.table({"text": TEXTS, "label": LABELS})
    model = TextClassifier(answer="kernel", random_state=0, verbose=0)
    model.fit(table["text"], table["label"])
    assert model.classes_.tolist() == ["+", "-"]
    assert model.predict(table.select(["text"])).tolist() == table["label"].to_pylist()
    numbers = torch.arange(8.0)
    smiles = pa.array(["C" * n + "O" for n in range(1, 9)])
    found = MoleculeRegressor(answer="kernel", verbose=0).fit(smiles, numbers).predict(smiles)
    assert found.shape == (8,)


def test_values_without_an_order_are_no_sequence():
    with pytest.raises(DataError, match=r"X is a dict; expected a sequence. Pass \[\*X.values"):
        TextClassifier(verbose=0).fit({"text": TEXTS}, LABELS)
    with pytest.raises(DataError, match="X is a set; expected a sequence"):
        TextClassifier(verbose=0).fit({*TEXTS}, LABELS)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_group_is_named(missing):
    with pytest.raises(DataError, match=r"groups\[1\] is (None|nan): a missing group"):
        TextClassifier(verbose=0).fit(TEXTS, LABELS, groups=["a", missing] * 6)


def test_labels_that_all_differ_and_weights_of_unknown_classes_are_named():
    with pytest.raises(DataError, match="all 24 labels of y differ"):
        TextClassifier(verbose=0).fit(TEXTS * 2, range(24))
    model = TextClassifier(answer="kernel", class_weight={"+": 1, "z": 2}, verbose=0)
    with pytest.raises(ArgumentError, match="expected weights of the classes"):
        model.fit(TEXTS, LABELS)


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_numbers_whose_squares_overflow_are_refused(size: float):
    model = TextRegressor(answer="kernel", verbose=0)
    with pytest.raises(DataError, match=r"whose squares overflow. Give them another unit"):
        model.fit(TEXTS, size * np.arange(12.0))
    found = model.fit(TEXTS, size**0.1 * np.arange(12.0)).predict(TEXTS[:1])
    assert np.isfinite(found).all()


def test_masked_values_are_missing():
    every_third = np.arange(12) % 3 == 0
    with pytest.raises(DataError, match=r"y\[0\] is None: a missing label"):
        TextClassifier(verbose=0).fit(TEXTS, np.ma.masked_array([0, 1] * 6, every_third))
    windows = np.ma.masked_array(np.ones((12, 1, 8)), np.ones((12, 1, 8), bool))
    with pytest.raises(DataError, match=r"X\[0\] contains NaN"):
        SignalClassifier(sampling_rate=8, verbose=0).fit(windows, [0, 1] * 6)
    numbers = np.ma.masked_array(np.arange(12.0), every_third)
    wanted = np.where(every_third, np.nan, np.arange(12.0))
    np.testing.assert_array_equal(as_sequence(numbers), wanted)
    assert as_sequence(np.ma.masked_array([3, 4])).tolist() == [3, 4]


@pytest.mark.parametrize("flag", [False, True, np.False_])
def test_verbose_may_be_a_flag(flag: object):
    TextClassifier(answer="kernel", verbose=flag).fit(TEXTS, LABELS)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="verbose is -1; expected 0 or more"):
        TextClassifier(answer="kernel", verbose=-1).fit(TEXTS, LABELS)
