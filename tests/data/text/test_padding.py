from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from representer.data.text import Vocabulary, collate, truncation
from representer.errors import ArgumentError

DOCUMENTS = st.lists(st.lists(st.integers(1, 99), max_size=9), min_size=1, max_size=6)


@given(documents=DOCUMENTS, max_length=st.one_of(st.none(), st.integers(1, 9)))
def test_rows_are_truncated_documents_followed_by_padding(documents, max_length):
    tokens, lengths = collate(documents, max_length)
    assert tokens.dtype == lengths.dtype == torch.int64
    assert tokens.shape == (len(documents), max(1, int(lengths.max())))
    for row, length, document in zip(tokens.tolist(), lengths.tolist(), documents, strict=True):
        assert row[:length] == document[:max_length]
        assert length == min(len(document), max_length or 9)
        assert set(row[length:]) <= {Vocabulary.PAD}


def test_truncation_is_reported():
    report = truncation([4, 5, 8], 4)
    assert (report.cut, report.tokens_cut, report.tokens, report.longest) == (2, 5, 17, 8)
    assert str(report) == (
        "2 of 3 documents are truncated to their first 4 tokens; 29.4% of tokens are removed"
    )
    assert str(truncation([1, 3], 4)) == "no document is longer than 4 tokens (longest 3)"


def test_empty_batches_and_invalid_limits_are_rejected():
    with pytest.raises(ArgumentError, match="documents is"):
        collate([])
    with pytest.raises(ArgumentError, match="max_length is 0"):
        collate([[1]], 0)
    with pytest.raises(ArgumentError, match="max_length is 0"):
        truncation([1], 0)
