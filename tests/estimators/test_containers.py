"""Strings and targets in the containers that users have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch

from representer.errors import DataError
from representer.estimators import MoleculeRegressor, TextClassifier
from representer.estimators.containers import as_sequence, strings_of

TEXTS = ["good film", "bad film"] * 6


class Frame:
    """A data frame as pandas has them: columns by position through ``iloc``."""

    def __init__(self, **columns: list[str]) -> None:
        self.columns = [*columns]
        self._table = np.array([*columns.values()], dtype=object).T
        self.shape, self.iloc = self._table.shape, self._table


CONTAINERS = {
    "tuple": tuple(TEXTS),
    "strings of NumPy": np.array(TEXTS),
    "a column of an array": np.array(TEXTS, dtype=object)[:, None],
    "Arrow array": pa.array(TEXTS),
    "Arrow chunks": pa.chunked_array([TEXTS[:5], TEXTS[5:]]),
    "Arrow table": pa.table({"text": TEXTS}),
    "data frame": Frame(text=TEXTS),
}


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
    with pytest.raises(DataError, match="X is one string; expected a sequence of texts"):
        strings_of("a", "texts", "a string")


def test_targets_of_arrow_and_torch_have_plain_values():
    assert as_sequence(pa.array(["a", "b"])) == ["a", "b"]
    numbers = as_sequence(torch.tensor([1, 2]))
    assert isinstance(numbers, np.ndarray)
    assert numbers.tolist() == [1, 2]


def test_estimators_take_columns():
    table = pa.table({"text": TEXTS, "label": ["+", "-"] * 6})
    model = TextClassifier(answer="kernel", random_state=0, verbose=0)
    model.fit(table["text"], table["label"])
    assert model.classes_.tolist() == ["+", "-"]
    assert model.predict(table.select(["text"])).tolist() == table["label"].to_pylist()
    numbers = torch.arange(8.0)
    smiles = pa.array(["C" * n + "O" for n in range(1, 9)])
    found = MoleculeRegressor(answer="kernel", verbose=0).fit(smiles, numbers).predict(smiles)
    assert found.shape == (8,)
