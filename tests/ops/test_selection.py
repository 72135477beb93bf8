"""The backend of a block of code."""

from __future__ import annotations

import pytest

from representer.ops.selection import chosen_backend, use_backend


def test_outside_of_a_block_nothing_is_chosen():
    assert chosen_backend() is None


def test_the_innermost_block_counts_and_leaving_restores():
    with use_backend("reference"):
        with use_backend("other"):
            assert chosen_backend() == "other"
        with use_backend(None):
            assert chosen_backend() is None
        assert chosen_backend() == "reference"
    assert chosen_backend() is None


def test_an_error_inside_the_block_restores_too():
    with pytest.raises(RuntimeError), use_backend("reference"):
        raise RuntimeError
    assert chosen_backend() is None
