"""Several targets with missing values: labels, metrics, differences, verdict and errors."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from representer.data.tables.columns import Dropped
from representer.errors import DataError
from representer.estimators.results import result_columns
from representer.estimators.targets import Classes, ClassTable, Numbers, columns_of
from representer.report.page import (
    Column,
    Predictions,
    by_target,
    compared,
    figures_by_target,
    mistakes,
)
from representer.tasks.objects import (
    Data,
    Objects,
    encode_labels,
    equal_objects,
    find_classes,
    find_target,
    naming,
)
from representer.tasks.results import summary, verdicts

TABLE = ClassTable((Classes(("no", "yes")), Classes(("0", "1"))))


def objects(*labels: tuple[str, ...]) -> Objects:
    names = tuple("ab"[: len(labels[0])])
    return Objects("f.csv", "f.csv", ["C"] * len(labels), labels, range(2, len(labels) + 2),
                   targets=names, is_numbered_by_line=True)  # fmt: skip


def test_labels_of_several_targets_are_encoded_and_empty_ones_are_unknown():
    numbers = objects(("1", "10"), ("3", ""), ("100", "30"), ("", "20"))
    values = encode_labels(numbers, [])
    np.testing.assert_array_equal(values, [[1, 10], [3, np.nan], [100, 30], [np.nan, 20]])
    target = find_target(numbers, values[[0, 1, 3]], [])
    assert target == Numbers((2.0, 15.0), (1.0, 5.0), is_single=False)
    classes = objects(("no", "1"), ("yes", ""), ("no", "0"))
    names = find_classes(classes)
    assert names == [["no", "yes"], ["0", "1"]]
    values = encode_labels(classes, names)
    np.testing.assert_array_equal(values, [[0, 1], [1, np.nan], [0, 0]])
    assert find_target(classes, values, names) == TABLE
    assert [len(columns_of(one)) for one in (TABLE, TABLE.columns[0], target)] == [2, 1, 2]


def test_copies_with_another_label_are_counted_and_one_is_named():
    main = objects(("no", "1"), ("yes", "1"), ("no", ""), ("no", "0"), ("no", "1"), ("no", ""))
    main = replace(main, digests=np.array([5, 5, 7, 8, 8, 7]))
    contradictions = equal_objects({"all": main}, "texts", has_classes=True)["contradictions"]
    assert contradictions.startswith("4 texts have equals with another label, such as line 2;")
    assert "contradictions" not in equal_objects({"all": main}, "texts")
    same = replace(main, digests=np.array([1, 2, 7, 4, 5, 7]))
    assert [*equal_objects({"all": same}, "texts", has_classes=True)] == ["copies"]


def test_messages_about_a_row_name_the_file_and_the_line():
    with pytest.raises(DataError, match=r"^f\.csv: line 4 has tokens\."), naming("f.csv", [2, 4]):
        raise DataError("X[1] has tokens")
    text = r"^f\.csv: 2 texts are empty: line 2, line 4\.$"
    with pytest.warns(UserWarning, match=text), naming("f.csv", [2, 4]):
        warnings.warn("2 texts are empty: X[0], X[1].", stacklevel=1)
    with pytest.raises(DataError, match=r"^f\.xlsx: row 4, no X\[7\]"), naming("f.xlsx", [2, 4]):
        raise DataError("X[1], no X[7]")


def test_messages_about_a_row_of_several_files_name_the_row():
    several = replace(objects(("a",), ("b",)).subset([1]), has_lines=False)
    with pytest.raises(DataError, match=r"^f\.csv: row 2 has tokens\."), several.named():
        raise DataError("X[0] has tokens")


def test_a_copy_without_a_label_contradicts_nothing():
    main = replace(objects(("a",), ("b",), ("",)), digests=np.array([1, 1, 1]))
    contradictions = equal_objects({"all": main}, "texts", has_classes=True)["contradictions"]
    assert contradictions.startswith("2 texts have equals with another label")


def test_one_named_target_is_a_single_column_without_unknown_values():
    assert encode_labels(objects(("1",), ("2.5",)), []).tolist() == [1, 2.5]
    assert encode_labels(objects(("x",), ("y",)), [["x", "y"]]).dtype == np.int64
    with pytest.raises(DataError, match=r"f\.csv, line 3, column 'a': .* expected a finite number"):
        encode_labels(objects(("1",), ("",)), [])


@pytest.mark.parametrize(("labels", "is_regression", "message"), [
    ([("1", "1"), ("2", "1"), ("3", "2")], True, "column 'b': the training part has the one v"),
    ([("1", ""), ("2", ""), ("3", "2")], True, "column 'b': the training part has no value"),
    ([("x", "x"), ("y", "x"), ("y", "y")], False, "column 'b': only one class is left"),
    ([("x", "x"), ("y", "x"), ("y", "x")], False, "column 'b': all 3 labels are 'x'"),
    ([("x", ""), ("y", ""), ("y", "")], False, "column 'b': there are no labels"),
])  # fmt: skip
def test_a_target_with_nothing_to_learn_is_refused_by_its_name(labels, is_regression, message):
    def find() -> None:
        source = objects(*labels)
        classes = [] if is_regression else find_classes(source)
        find_target(source, encode_labels(source, classes)[:2], classes)

    with pytest.raises(DataError, match=message):
        find()


def test_metrics_of_each_target_leave_out_unknown_values():
    truth = np.array([[1.0, np.nan], [2.0, 5.0], [4.0, np.nan]])
    columns = result_columns("ab", truth, Numbers((0.0, 0.0), (1.0, 1.0), is_single=False))
    model = [Predictions(np.array([2.0, 3.0, 5.0]), deviations=np.full(3, 2.0)),
             Predictions(np.array([9.0, 7.0, 9.0]), deviations=np.full(3, 1.0))]  # fmt: skip
    figures = figures_by_target(columns, model)
    assert figures["a"]["rmse"] == 1
    assert figures["a"]["coverage"] == {"0.5": 1.0, "0.8": 1.0, "0.9": 1.0, "0.95": 1.0}
    assert (figures["b"]["count"], figures["b"]["rmse"]) == (1, 2)
    assert figures["b"]["coverage"]["0.95"] == 0
    worse = [Predictions(np.array([4.0, 5.0, 7.0])), Predictions(np.array([0.0, 5.0, 0.0]))]
    row = compared(columns, model, worse)
    difference, low, high = row["difference"]["a"]
    assert difference == pytest.approx(-2)
    assert low < difference < 0 <= high  # three rows tell nothing
    assert row["difference"]["b"] == pytest.approx([2, 0, 4])  # as far as the errors allow
    nobody = figures_by_target([columns[0], columns[1]._replace(truth=truth[[0, 2, 0], 1])], model)
    assert list(nobody) == ["a"]


def test_the_auc_is_that_of_the_second_class():
    labels = np.array([0.0, 0.0, 1.0, 1.0, np.nan])
    chances = np.array([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.2, 0.8], [0.0, 1.0]])
    own = Predictions(chances.argmax(1), chances)
    figures = figures_by_target([Column("c", labels, ["no", "yes"])], [own])["c"]
    assert figures["auc"] == 0.75  # three of the four pairs are in order
    # the precision where each of the two is found: first of one, second of three
    assert figures["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert figures["count"] == 4
    assert figures["ranked_class"] == "yes"
    alone = figures_by_target([Column("", labels[:2], ["no", "yes"])], [own.at(np.arange(2))])
    assert alone["auc"] is alone["average_precision"] is None


def test_verdict_and_closing_table_are_those_of_each_target():
    truth = np.tile(np.arange(40.0)[:, None], 2)
    columns = result_columns("ab", truth, Numbers((0.0, 0.0), (1.0, 1.0), is_single=False))
    model = [Predictions(truth[:, 0] + 1), Predictions(truth[:, 1] + 3)]
    other = compared(columns, model, [Predictions(truth[:, 0] + 2)] * 2)
    metrics = {
        "kind": "regression", "model": "M", "targets": ["a", "b"], "seconds": 1.0,
        "test": figures_by_target(columns, model), "comparisons": [],
        "baselines": [{"name": "B", "seconds": 2.0} | other],
    }  # fmt: skip
    said = verdicts(metrics, "molecules")["verdict"]
    assert said.startswith("a: On 40 test molecules, M is ahead of B (RMSE -1,")
    assert "b: On 40 test molecules, M is behind B (RMSE +1," in said
    assert said.endswith(": use B instead.")
    lines = summary(metrics).splitlines()
    assert [lines.index("a"), lines.index("b")] == [0, 4]
    assert by_target(metrics)["b"]["baselines"][0]["rmse"] == 2
    flat = metrics | {"targets": []}
    assert by_target(flat) == {"": flat}


def data(labels: list[tuple[str, ...]], target: Numbers | ClassTable) -> Data:
    source = objects(*labels)
    classes = [] if isinstance(target, Numbers) else [list(c.names) for c in target.columns]
    return Data(target, {"test": source}, {"test": encode_labels(source, classes)},
                [("all", source)])  # fmt: skip


def errors_of(made: Data, predictions: Predictions) -> list[dict[str, Any]]:
    part = made.parts["test"]
    labels = part.columns[0][1]
    return mistakes(made.columns("test")[0], predictions, part.objects, labels, part.numbers)


def test_the_most_confident_errors_come_first_and_unknown_labels_are_no_errors():
    test = data([("yes", "0"), ("no", "1"), ("no", "1"), ("", "1")], TABLE)
    chances = np.array([[0.1, 0.9], [0.4, 0.6], [0.2, 0.8], [0.0, 1.0]])
    errors = errors_of(test, Predictions(chances.argmax(1), chances))
    assert [(e["number"], e["truth"], e["predicted"]) for e in errors] == [
        (4, "no", "yes (80 %)"), (3, "no", "yes (60 %)")
    ]  # fmt: skip


def test_rows_of_a_workbook_that_were_left_out_are_called_rows(capsys):
    for source, place in (("a.xlsx", "(rows 2, 3)"), ("a.csv", "(lines 2, 3)")):
        left_out = [Dropped(line, "empty text") for line in (2, 3)]
        kept = Objects(source, source, ["x"], ["a"], [1], dropped=left_out)
        kept.say_notes()
        assert place in capsys.readouterr().err
        assert kept.described("training")["unit"] == place[1:].partition("s ")[0]
