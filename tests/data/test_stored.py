"""Sequences in a file: their entries, and what is noticed when the file is damaged."""

from __future__ import annotations

import numpy as np
import pytest

from representer.data import stored


def test_stored_entries_are_those_that_were_written():
    texts = stored.Stored.write(
        (text.encode() for text in ["a", "", "größer", "b c"]), bytes.decode
    )
    assert [*texts] == ["a", "", "größer", "b c"]
    assert [*texts.take(np.array([2, 0]))] == ["größer", "a"]
    assert [*texts[1:3]] == ["", "größer"]
    assert texts.sizes.tolist() == [1, 0, 8, 3]
    assert texts[-1] == "b c"
    with pytest.raises(IndexError):
        texts[4]


def test_a_file_that_was_cut_off_is_noticed(tmp_path):
    texts = stored.Stored.write(iter([b"abc", b"def"]), bytes.decode)
    texts._file.file.truncate(4)
    with pytest.raises(OSError, match="1 of 3 bytes"):
        texts[1]
