"""Numbers and categories next to a text: their kernel, and their parts in a score."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from representer.kernels.text_kernel import TextKernel
from representer.kernels.vector_features import BINS, TableFeatures, TextRow

ROWS = [TextRow.of(f"text {k}", [str(k), "red" if k % 2 else "blue"]) for k in range(40)]


def test_the_kernel_of_a_category_is_equality_and_of_a_number_closeness():
    table = TableFeatures(["n", "color"]).fit(ROWS)
    features = table.transform(ROWS)
    assert features.shape == (40, table.width)
    gram, z = features @ features.T, (np.arange(40) - 19.5) / np.arange(40).std()
    bins = np.searchsorted(np.quantile(np.arange(40), np.linspace(0, 1, BINS + 1)[1:-1]), range(40))
    colors = np.arange(40) % 2
    numbers = (np.outer(z, z) + (bins[:, None] == bins)) / 2
    np.testing.assert_allclose(gram, (numbers + (colors[:, None] == colors)) / 2, atol=1e-12)
    assert np.trace(gram) / 40 == pytest.approx(1.0)


def test_an_unknown_category_and_an_empty_cell_have_no_say_and_an_interval_of_their_own():
    table = TableFeatures(["n", "color"]).fit([*ROWS, TextRow.of("x", ["", "red"])])
    unknown, empty, plain = table.transform([TextRow.of("x", ["1", "green"]), "y", "z"])
    assert np.count_nonzero(unknown) == 2  # the number and its interval
    assert np.count_nonzero(empty) == 1
    np.testing.assert_array_equal(empty, plain)
    large = table.transform([TextRow.of("x", ["1e9", "red"])])[0]
    assert abs(large).max() <= 3.0


def test_a_column_is_one_of_numbers_if_all_cells_are():
    cells = ["1,5", "2.5", "3", "four", "nan", "inf"]
    for count, is_number in ((3, True), (4, False), (6, False)):
        table = TableFeatures(["c"]).fit([TextRow.of("t", [cell]) for cell in cells[:count]])
        assert ("edges" in table.columns_[0]) == is_number


def test_shares_sum_to_the_score_of_the_columns():
    kernel = TextKernel(features=["n", "color"], min_count=1, min_characters=1)
    features = kernel.fit_transform(ROWS)
    assert features.toarray().shape[1] == kernel.width
    weights = np.random.default_rng(0).normal(size=kernel.width)
    shares = kernel.table_shares(ROWS[3], weights)
    assert [name for name, _ in shares] == ["n = 3", "color = red"]
    assert kernel.table_ is not None
    width = kernel.table_.width
    total = kernel.table_.transform([ROWS[3]])[0] @ weights[-width:]
    assert sum(value for _, value in shares) == pytest.approx(total, abs=1e-12)
    again = TextKernel(features=["n", "color"]).restore(*kernel.fitted())
    np.testing.assert_array_equal(again.transform(ROWS).toarray(), features.toarray())
    with pytest.raises(ValueError, match="2 columns next to the text for"):
        TextKernel(features=["n"]).restore(*kernel.fitted())


def test_a_row_is_its_text_and_keeps_its_cells_when_pickled():
    row = pickle.loads(pickle.dumps(ROWS[1]))
    assert row.cells == ("1", "red")
    assert row == "text 1"
