"""No text from a user controls the terminal."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from representer.errors import DataError, aligned, one_line, printable, reason


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
