"""No text from a user controls the terminal."""

from __future__ import annotations

import errno
import inspect
import math
import os
import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from representer import errors
from representer.checks import is_missing, parse_number
from representer.errors import (
    ArgumentError,
    DataError,
    Interrupted,
    KindError,
    MissingExtraError,
    RepresenterError,
    ShapeError,
    StorageError,
    aligned,
    one_line,
    printable,
    reason,
)


@pytest.mark.parametrize(("text", "shown"), [
    ("größer, 漢字, नमस्ते, 👩‍💻", "größer, 漢字, नमस्ते, 👩‍💻"), ("a\x1b[2Jb", r"a\x1b[2Jb"),
    ("a\x9b2J", r"a\x9b2J"), ("a\nb\tc\r", r"a\x0ab\x09c\x0d"),
    ("evil\u202etxt.exe", r"evil\u202etxt.exe"), (os.fsdecode(b"caf\xe9.csv"), r"caf\xe9.csv"),
])  # fmt: skip
def test_controls_are_escaped_and_letters_stay(text, shown):
    assert printable(text) == shown


def test_what_is_kept_is_not_escaped():
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"


@given(st.text(st.characters()))
def test_one_line_is_one_line_that_can_be_encoded(text):
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    line.encode()
    assert one_line(line) == line


def test_a_reason_is_short_and_never_empty():
    assert reason(ValueError("bad\nmagic.")) == "bad magic"
    assert reason(ValueError("x" * 999)) == "x" * 197 + "..."
    assert reason(MemoryError()) == "MemoryError"


def test_the_message_of_an_error_is_one_harmless_line():
    error = DataError("is\nbroken\x1b[31m.", file="a\x1b[2J\n.csv", line=3, fix="Fix\nit.")
    assert str(error) == r"a\x1b[2J\x0a.csv, line 3: is broken\x1b[31m. Fix it."


def test_a_table_has_its_numbers_below_each_other():
    rows = [["", "size", "time"], ["torch", "12 MB"], ["b", "3 MB", "1 ms"]]
    assert aligned(rows) == ["        size  time", "torch  12 MB", "b       3 MB  1 ms"]


def test_a_long_run_of_blanks_is_put_on_one_line_in_linear_time():
    """20,000 blanks took 14 seconds."""
    blanks = " " * 100_000
    start = time.process_time()
    assert one_line(f"a{blanks}b{blanks}\n{blanks}c") == f"a{blanks}b c"
    assert time.process_time() - start < 1


# Numbers in the plain notation.


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("-.5", -0.5), ("+2.", 2), ("1e-3", 1e-3), (" 7\t", 7), ("1E5", 1e5), ("007", 7)],
)
def test_plain_numbers_are_read(text, number):
    assert parse_number(text) == number


@pytest.mark.parametrize("text", [
    "", " ", "1_000", "١٢", "１２", "1,000", "0x10", "1e", ".", "--1", "1 2", "\xa07", "nan(1)",
    "ınf",
])  # fmt: skip
def test_everything_else_is_not_a_number(text):
    assert parse_number(text) is None


def test_what_is_not_finite_is_read_as_such():
    assert math.isnan(parse_number("NaN") or 0)
    assert (parse_number("-Infinity"), parse_number("inf")) == (-math.inf, math.inf)
    assert parse_number("1e999") == math.inf


@given(st.floats(allow_nan=False))
def test_every_float_that_python_writes_is_read_back(number):
    assert parse_number(repr(number)) == number


@pytest.mark.parametrize("cell", ["", "NA", "n/a", " NaN ", "none", "NULL", "?"])
def test_words_for_a_missing_value_are_known(cell):
    assert is_missing(cell)


@pytest.mark.parametrize("cell", [None, "0", "-", "no", "nab", "1.5"])
def test_other_cells_are_not_missing(cell):
    assert not is_missing(cell)


def test_a_long_cell_that_is_nearly_a_number_is_refused_in_linear_time():
    """20,000 digits and a letter took 28 seconds."""
    start = time.process_time()
    assert parse_number("1" * 100_000 + "x") is None
    assert parse_number("1" * 100_000 + ".5e") is None
    assert time.process_time() - start < 1


# Messages name the value, what was expected, and the fix; kinds are those of Python too.


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
