"""Columns of numbers and categories next to a text, in every command and in Python."""

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np
import pytest

from representer.cli.main import entry_point
from representer.errors import ArgumentError, DataError
from representer.estimators import TextClassifier
from representer.serving.served_model import ServedModel

ROWS = [
    {"review": f"thing n{k % 7}", "price": str(k % 10), "brand": "ab"[k // 2 % 2],
     "label": "cheap" if k % 10 < 5 else "dear"}
    for k in range(60)
]  # fmt: skip
SMALL = ["--answer", "kernel", "--baselines", "none", "--threads", "1"]
NAMES = ("price", "brand")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("features")
    data, run = folder / "d.csv", str(folder / "run")
    with data.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*ROWS[0]])
        writer.writeheader()
        writer.writerows(ROWS)
    words = ["--text", "review", "--label", "label", "--features", "price,brand", *SMALL]
    assert entry_point(["fit", "text", str(data), *words, "--out", run]) == 0
    return str(data), run


def test_columns_next_to_the_text_predict_what_the_text_does_not_say(trained, capsys):
    data, run = trained
    assert entry_point(["evaluate", run, data]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["accuracy"] == 1.0
    model = TextClassifier.load(run)
    assert list(model.features) == [*NAMES]
    table: list[Any] = [{"text": "thing", "price": "1", "brand": "a"},
                        {"text": "thing", "price": 9.0, "brand": None}]  # fmt: skip
    assert model.predict(table).tolist() == ["cheap", "dear"]


def test_predict_reads_the_columns_of_the_training_and_explain_names_them(
    trained, tmp_path, capsys
):
    data, run = trained
    out = tmp_path / "p.csv"
    assert entry_point(["predict", run, data, "-o", str(out)]) == 0
    rows = list(csv.DictReader(out.read_text("utf-8").splitlines()))
    assert [row["prediction"] for row in rows] == [row["label"] for row in ROWS]
    assert entry_point(["explain", run, data, "--json"]) == 0
    entry = json.loads(capsys.readouterr().out.splitlines()[0])
    entry = entry[0] if isinstance(entry, list) else entry
    names = {place["what"] for place in entry["by_place"]}
    assert {"thing", "price = 0", "brand = a"} <= names
    total = entry["constant"] + sum(place["contribution"] for place in entry["by_place"])
    assert total == pytest.approx(entry["score"], abs=1e-9)


def test_a_server_reads_objects_with_the_columns_and_texts_without(trained):
    model = ServedModel(trained[1], device="cpu")
    objects = model.read([{"text": "thing", "price": 1, "brand": "a"}, "thing n1"])
    first, second = model.predict(objects)
    assert first["prediction"] == "cheap"
    assert set(second["probabilities"]) == {"cheap", "dear"}
    with pytest.raises(DataError, match="without a text or a column 'brand'"):
        model.read([{"text": "thing", "price": 1}])


def test_a_table_in_python_is_the_same_model_as_that_of_a_file(tmp_path):
    cells = {"review": [row["review"] for row in ROWS], "price": [*range(10)] * 6,
               "brand": [row["brand"] for row in ROWS]}  # fmt: skip

    class Frame:
        """A table with the attributes of a data frame."""

        shape, columns = (60, 3), [*cells]

        def __getitem__(self, name: str) -> list[Any]:
            return cells[name]

    labels = [row["label"] for row in ROWS]
    model = TextClassifier(answer="kernel", features=NAMES, random_state=0, verbose=0)
    model.fit(Frame(), labels)
    rows = [{k: v for k, v in row.items() if k != "label"} for row in ROWS]
    again = TextClassifier(answer="kernel", features=NAMES, random_state=0, verbose=0)
    again.fit(rows, labels)
    np.testing.assert_array_equal(model.predict_proba(Frame()), again.predict_proba(rows))
    (explained,) = model.explain(rows[:1])
    assert "price = 0" in {line.what for line in explained.by_place}
    model.save(tmp_path / "run")
    loaded = TextClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("thing", "X is one string"),
        ([3, 4], r"X\[0\] is 3 without a text or a column 'price'"),
        ([{"text": "a", "price": 1}], r"X\[0\] is .* without a text or a column 'brand'"),
        ([{"price": 1, "brand": "a"}], r"X\[0\] is .* without a text or a column 'text'"),
        ([{"text": 3, "price": 1, "brand": "a"}], "without a text"),
    ],
)
def test_rows_without_a_text_or_a_column_are_named(X, message):
    model = TextClassifier(answer="kernel", features=NAMES, verbose=0)
    with pytest.raises(DataError, match=message):
        model.fit(X, ["a", "b"][: len(X)])


def test_texts_without_cells_are_predicted_but_not_fitted_to():
    model = TextClassifier(answer="kernel", features=NAMES, verbose=0)
    with pytest.raises(ArgumentError, match="expected columns of the table that is fitted to"):
        model.fit(["thing", "other"] * 20, ["a", "b"] * 20)


def test_names_of_columns_are_a_list():
    with pytest.raises(ArgumentError, match="features is 'price'"):
        TextClassifier(features="price", verbose=0).fit(ROWS, ["a"] * 60)
