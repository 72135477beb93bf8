"""The benchmark of Gram matrices: its torch forms agree, and a wrong kernel is not timed."""

from __future__ import annotations

from types import ModuleType

import pytest

from representer.ops import core

pytestmark = pytest.mark.skipif(core.LIBRARY is None, reason=core.MISSING)


@pytest.fixture
def gram(bench) -> ModuleType:
    """Return the script as a module."""
    return bench("gram")


@pytest.mark.parametrize("sizes", [(5, 7, 3, 2), (4, 6, 2, 3), (4, 6, 0, 1), (4, 6, 0, 4)])
def test_every_candidate_computes_the_same_matrix(gram, sizes):
    candidates, peers = gram.candidates(gram.Case(*sizes))  # which compares them
    assert len(candidates) == 2 + len(peers) == (5 if sizes[3] == 2 else 4)


def test_a_wrong_kernel_is_not_timed(gram, monkeypatch):
    right = gram.string_gram
    monkeypatch.setattr(gram, "string_gram", lambda *given: right(*given) * (1 + 1e-8))
    with pytest.raises(SystemExit, match=r"off by .*; nothing is timed"):
        gram.candidates(gram.Case(4, 5, 2, 2))
