"""Columns and tables of pandas, polars, Arrow and Hugging Face's datasets as X and y."""

from __future__ import annotations

import numpy as np
import pytest

from representer.errors import DataError
from representer.estimators import (
    GraphClassifier,
    LanguageModel,
    MoleculeRegressor,
    SignalClassifier,
    TextClassifier,
)

pytestmark = pytest.mark.peers
KERNEL = {"answer": "kernel", "random_state": 0, "verbose": 0}
LIBRARIES = ("pandas", "polars", "pyarrow", "datasets", "datasets as numpy", "datasets as torch")


@pytest.fixture(scope="module", autouse=True)
def _imported():
    """Import polars, which sets an environment variable, before the state is compared."""
    pytest.importorskip("polars")


def table_of(library, columns):
    """Return columns as a table of a library; the index of pandas does not begin at 0."""
    if library == "pandas":
        import pandas

        count = len(next(iter(columns.values())))
        return pandas.DataFrame(columns, index=range(50, 50 + count))
    if library == "polars":
        import polars

        return polars.DataFrame(columns)
    if library == "pyarrow":
        import pyarrow

        return pyarrow.table(columns)
    import datasets

    table = datasets.Dataset.from_dict(columns)
    return table.with_format(library.split()[-1]) if " as " in library else table


def only(table, name):
    """Return the table of one column."""
    for select in ("select_columns", "select"):
        if hasattr(table, select):
            return getattr(table, select)([name])
    return table[[name]]


@pytest.mark.parametrize("library", LIBRARIES)
def test_texts(library):
    columns = {"text": ["good film", "bad film"] * 6, "label": [4, 9] * 6, "set": [1, 1, 2, 2] * 3}
    table, test = table_of(library, columns), ["a good film"]
    expected = TextClassifier(**KERNEL).fit(*list(columns.values())[:2], groups=columns["set"])
    model = TextClassifier(**KERNEL)
    for X in (table["text"], only(table, "text")):
        model.fit(X, table["label"], groups=table["set"])
        assert model.classes_.tolist() == [4, 9]
        assert model.score(X, table["label"]) == 1
        np.testing.assert_array_equal(model.predict_proba(test), expected.predict_proba(test))
    model.fit(table["text"], table["label"], validation=(only(table, "text"), table["label"]))
    assert model.examples_["valid"] == 12
    with pytest.raises(DataError, match=r"3 columns: text, label, set; expected one.*X\['text'\]"):
        model.fit(table, table["label"])


@pytest.mark.parametrize("library", LIBRARIES[:-1])  # torch has no missing numbers
def test_molecules_with_a_table_of_targets(library):
    smiles, numbers = ["C" * n + "O" for n in range(1, 11)], [float(n) for n in range(10)]
    rest = [None, *numbers[1:]]
    table = table_of(library, {"smiles": smiles, "a": numbers, "b": rest})
    truth = np.array([numbers, rest], dtype=float).T
    expected = MoleculeRegressor(**KERNEL).fit(smiles, truth)
    y = table[["a", "b"]] if library in ("pandas", "polars") else table.select(["a", "b"]) \
        if library == "pyarrow" else table.select_columns(["a", "b"])  # fmt: skip
    model = MoleculeRegressor(**KERNEL).fit(only(table, "smiles"), y)
    np.testing.assert_array_equal(model.predict(smiles), expected.predict(smiles))
    assert model.score(table["smiles"], y) == expected.score(smiles, truth)


@pytest.mark.parametrize("library", LIBRARIES)
def test_windows(library):
    time, rng = np.arange(80) / 100, np.random.default_rng(0)
    waves = [np.sin(2 * np.pi * hertz * time) for hertz in (8, 20)]
    windows = [waves[i % 2] + rng.normal(size=(2, 80)).round(2) for i in range(16)]
    labels = ["alpha", "beta"] * 8
    table = table_of(library, {"window": [one.tolist() for one in windows], "label": labels})
    expected = SignalClassifier(**KERNEL, sampling_rate=100).fit(windows, labels)
    for X in (table["window"], only(table, "window")):
        model = SignalClassifier(**KERNEL, sampling_rate=100).fit(X, table["label"])
        chances = model.predict_proba(np.stack(windows))
        # torch's tensors are of float32, in which the filters differ by rounding
        np.testing.assert_allclose(chances, expected.predict_proba(windows), atol=1e-4)


@pytest.mark.parametrize("library", LIBRARIES)
def test_rows_of_a_table_are_graphs(library):
    def ring(count):
        nodes = np.arange(count)
        pairs = np.stack([nodes, (nodes + 1) % count])
        return np.concatenate([pairs, pairs[::-1]], axis=1).tolist()

    sizes = [3, 8] * 6
    columns = {
        "edge_index": [ring(count) for count in sizes],
        "node_feat": [[[k % 2] for k in range(count)] for count in sizes],
        "edge_attr": [[[k % 2] for k in range(2 * count)] for count in sizes],
        "num_nodes": sizes, "y": [0, 1] * 6,
    }  # fmt: skip
    table = table_of(library, columns)
    model = GraphClassifier(**KERNEL).fit(table, table["y"])
    assert model.inputs_.nodes.labels == model.inputs_.edges.labels == (0, 1)
    assert model.score(table, table["y"]) == 1
    rows = [{name: columns[name][i] for name in columns} for i in range(12)]
    np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(table))
    bare = [{name: row[name] for name in ("edge_index", "num_nodes")} for row in rows]
    assert GraphClassifier(**KERNEL).fit(bare, columns["y"]).score(bare, columns["y"]) == 1
    with pytest.raises(DataError, match=r"X\[0\] has 'edge_index' that is no array of numbers"):
        GraphClassifier(**KERNEL).fit([{"edge_index": [[0], [0, 1]]}] * 2, [0, 1])


@pytest.mark.parametrize("library", LIBRARIES)
def test_lines_of_a_language_model(library):
    lines = ["a b c d", "b c a d"] * 20
    table = table_of(library, {"line": lines})
    expected = LanguageModel(**KERNEL).fit(lines).score(lines)
    assert LanguageModel(**KERNEL).fit(table["line"]).score(table) == expected
