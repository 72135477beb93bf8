"""Columns with a fixed meaning: by their names, or else by their position."""

from __future__ import annotations

import pytest

from representer.data.tables import Grid
from representer.data.tables.columns import data_columns, find_roles
from representer.errors import DataError

ROLES = {"file": {"file", "path"}, "label": {"label", "class"}, "rate": {"rate"}}


def grid(*columns: str, written: tuple[str, ...] = ()) -> Grid:
    return Grid([*columns], [], [], [], True, False, [], written)


@pytest.mark.parametrize(
    ("columns", "places"),
    [
        (("class", "Path"), {"file": 1, "label": 0}),
        (("a", "b"), {"file": 0, "label": 1}),
        (("a", "rate", "file"), {"file": 2, "label": 0, "rate": 1}),
        (("Unnamed: 0", "a", "class", "label"), {"file": 1, "label": 3}),  # the plain name
    ],
)
def test_names_come_first_then_positions(columns, places):
    assert find_roles(grid(*columns), ROLES, "t.csv", optional=("rate",)) == places


def test_a_nameless_index_is_no_column_of_data():
    table = grid("1", "name", "rate", written=("", "name", "rate"))
    assert data_columns(table) == [1, 2]
    assert find_roles(table, ROLES, "t.csv", optional=("label", "rate")) == {"file": 1, "rate": 2}


def test_too_many_and_too_few_columns_are_errors():
    with pytest.raises(
        DataError, match=r"t\.csv: several columns could be the file: 'path', 'PATH'"
    ):
        find_roles(grid("path", "PATH", "label"), ROLES, "t.csv")
    with pytest.raises(DataError, match=r"no column is left for the label; the columns are 'file'"):
        find_roles(grid("file"), ROLES, "t.csv")
