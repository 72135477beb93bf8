from __future__ import annotations

import sys
from pathlib import Path

import pytest

from representer.data.tables.workbook import read_parquet
from representer.errors import DataError, MissingExtraError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "a.parquet"


def test_a_nested_column_does_not_come_along_with_a_plain_one_that_has_its_name_and_a_dot(path):
    columns = {"a.b": ["x", "y"], "a": [{"b": 1}, {"b": 2}], "text": ["p", "q"]}
    parquet.write_table(pyarrow.table(columns), path)
    grid = next(read_parquet(path))
    assert grid.columns == ["a.b", "text"]
    assert grid.rows == [["x", "p"], ["y", "q"]]


def test_categories_are_read_as_their_names(path):
    labels = pyarrow.array(["x", "y", "x"]).dictionary_encode()
    parquet.write_table(pyarrow.table({"text": ["a", "b", "c"], "label": labels}), path)
    assert [row[1] for row in next(read_parquet(path)).rows] == ["x", "y", "x"]


def test_a_file_without_rows_or_plain_columns_is_rejected(path):
    for columns in ({"text": pyarrow.array([], pyarrow.string())}, {"vector": [[1], [2]]}):
        parquet.write_table(pyarrow.table(columns), path)
        with pytest.raises(DataError, match="no rows of plain values"):
            next(read_parquet(path))


def test_duplicate_names_are_rejected(path):
    table = pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 2, names=["text", "text"])
    parquet.write_table(table, path)
    with pytest.raises(DataError, match="column 'text': two columns have this name"):
        next(read_parquet(path))


def test_a_missing_file_is_rejected(path):
    with pytest.raises(DataError, match="no such file"):
        next(read_parquet(path))


def test_the_error_for_a_missing_pyarrow_names_the_extra(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pyarrow.*representer\[train\]"):
        next(read_parquet(path))


def test_equal_texts_are_one_object_so_a_small_file_stays_small(tmp_path):
    path = tmp_path / "long.parquet"
    numbers = pyarrow.array([0, None, 1] * 100, pyarrow.int32())
    texts = pyarrow.DictionaryArray.from_arrays(numbers, ["x" * 10_000, "y"])
    parquet.write_table(pyarrow.table({"text": texts, "kind": range(300)}), path)
    (grid,) = read_parquet(path)
    cells = [row[0] for row in grid.rows]
    assert cells[:3] == ["x" * 10_000, None, "y"]
    assert len({id(cell) for cell in cells}) == 3


def test_more_rows_than_bits_in_the_file_are_refused(tmp_path):
    path = tmp_path / "many.parquet"
    parquet.write_table(pyarrow.table({"text": pyarrow.nulls(2_000_000, pyarrow.int8())}), path)
    with pytest.raises(DataError, match=r"2,000,000 rows of [0-9,]+ bytes are declared"):
        list(read_parquet(path))


@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "large_binary"])
@pytest.mark.parametrize("has_schema", [True, False])
def test_one_long_text_in_every_row_is_refused_before_it_is_repeated(path, kind, has_schema):
    text = "a" * (4 << 20)
    words = pyarrow.array([text if "string" in kind else text.encode()], getattr(pyarrow, kind)())
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 2000, pyarrow.int32()), words)
    table = pyarrow.table({"text": column, "label": ["x", "y"] * 1000})
    options = {"dictionary_pagesize_limit": 1 << 30, "data_page_size": 1 << 30}
    parquet.write_table(table, path, compression="zstd", store_schema=has_schema, **options)
    assert path.stat().st_size < 4000
    with pytest.raises(DataError, match="its texts repeat so often"):
        list(read_parquet(path))


def test_wide_cells_of_fixed_size_are_no_plain_values_and_other_kinds_are_read(path):
    columns = {
        "wide": pyarrow.array([b"a" * 2000] * 2, pyarrow.binary(2000)),
        "id": pyarrow.array([b"abcd", None], pyarrow.binary(4)),
        "price": pyarrow.array([1, 2], pyarrow.decimal128(20, 2)),
        "view": pyarrow.array(["p", None], pyarrow.string_view()),
    }
    parquet.write_table(pyarrow.table(columns), path)
    grid = next(read_parquet(path))
    assert grid.columns == ["id", "price", "view"]
    assert [[str(cell) for cell in row] for row in grid.rows] == [
        ["b'abcd'", "1.00", "p"], ["None", "2.00", "None"],
    ]  # fmt: skip
