"""The help topics: a text of some size, without repetitions, in any Python."""

from __future__ import annotations

from representer.data.language import topics


def test_the_text_is_long_enough_and_reproducible():
    lines, name = topics()
    assert len(lines) > 1000
    assert sum(len(line.split()) for line in lines) > 50_000
    assert "Python 3." in name
    assert topics() == (lines, name)


def test_no_line_occurs_twice_and_none_is_empty():
    lines, _ = topics()
    assert len(set(lines)) == len(lines)
    assert all(len(line.split()) > 3 for line in lines)


def test_lines_are_lower_case_words_and_marks_separated_by_spaces():
    lines, _ = topics()
    assert all(line == line.lower() for line in lines)
    words = {word for line in lines for word in line.split()}
    assert all(word.replace("_", "a").isalnum() or len(word) == 1 for word in words)
