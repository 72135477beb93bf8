"""Messages name the value, what was expected, and the fix; kinds are those of Python too."""

from __future__ import annotations

import errno
import inspect
import pickle

import pytest

from representer import errors
from representer.errors import (
    ArgumentError,
    DataError,
    Interrupted,
    KindError,
    MissingExtraError,
    RepresenterError,
    ShapeError,
    StorageError,
)


@pytest.mark.parametrize(("error", "message"), [
    (ArgumentError("order", 0, "1 or more"), "order is 0; expected 1 or more."),
    (ArgumentError("q", "x", "a", hint="See b."), "q is 'x'; expected a. See b."),
    (ShapeError("x", (2, 7), "(time, 3)"), "x has shape (2, 7); expected (time, 3)."),
    (KindError("x", "an int", "a tensor"), "x is an int; expected a tensor."),
    (
        MissingExtraError("the report", "jinja2", "train"),
        'the report needs jinja2: pip install "representer[train]"',
    ),
])  # fmt: skip
def test_a_message_names_the_value_the_expectation_and_the_fix(error, message):
    assert str(error) == message


@pytest.mark.parametrize(("place", "shown"), [
    ({}, "it is empty."),
    ({"file": "a.csv"}, "a.csv: it is empty."),
    ({"file": "a.csv", "line": 3}, "a.csv, line 3: it is empty."),
    ({"file": "a", "line": 3, "column": "b"}, "a, line 3, column 'b': it is empty."),
    ({"file": "a.csv", "fix": "Fill it."}, "a.csv: it is empty. Fill it."),
])  # fmt: skip
def test_bad_data_are_named_with_their_place(place, shown):
    assert str(DataError("it is empty", **place)) == shown
    assert str(DataError("it is empty.", **place)) == shown


def test_values_and_shapes_are_value_errors_and_kinds_are_type_errors():
    assert issubclass(ArgumentError, ValueError)
    assert issubclass(ShapeError, ValueError)
    assert issubclass(DataError, ValueError)
    assert issubclass(KindError, TypeError)
    assert issubclass(MissingExtraError, ImportError)
    assert issubclass(StorageError, OSError)


def test_every_error_has_the_one_base_and_an_exit_code():
    kinds = [value for value in vars(errors).values() if inspect.isclass(value)]
    kinds = [kind for kind in kinds if kind.__module__ == errors.__name__]
    assert len(kinds) > 10
    for kind in kinds:
        assert issubclass(kind, RepresenterError)
        assert kind.exit_code in (2, 70, 73)


def test_an_interruption_brings_the_exit_code_of_its_signal():
    assert Interrupted("by SIGTERM", 143).exit_code == 143


def test_a_full_disk_is_reported_with_the_file_and_the_fix():
    error = StorageError("run/model", OSError(errno.ENOSPC, "No space left on device"))
    assert str(error).startswith("run/model cannot be written: no space left on device. Free some")
    assert error.errno == errno.ENOSPC


@pytest.mark.parametrize("error", [
    ArgumentError("order", 0, "1 or more", hint="See b."),
    DataError("it is empty", file="a.csv", line=3),
    MissingExtraError("the report", "jinja2", "train"),
    StorageError("run/model", OSError(errno.ENOSPC, "No space left on device")),
    Interrupted("by SIGTERM", 143),
])  # fmt: skip
def test_an_error_of_another_process_keeps_its_class_its_message_and_its_exit_code(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.exit_code == error.exit_code


def test_a_place_in_a_file_without_lines_is_a_row():
    for file, place in (("a.csv", "line 3"), ("A.XLSX", "row 3"), ("a.parquet", "row 3")):
        assert str(DataError("no label", file=file, line=3)) == f"{file}, {place}: no label."
