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
    candidates, baselines = gram.candidates(gram.Case(*sizes))  # which compares them
    assert len(candidates) == 2 + len(baselines) == (5 if sizes[3] == 2 else 4)


def test_a_wrong_kernel_is_not_timed(gram, monkeypatch):
    right = gram.string_gram
    monkeypatch.setattr(gram, "string_gram", lambda *given: right(*given) * (1 + 1e-8))
    with pytest.raises(SystemExit, match=r"off by .*; nothing is timed"):
        gram.candidates(gram.Case(4, 5, 2, 2))


@pytest.mark.parametrize(
    ("ours", "verdict"), [(0.1, "20.0 (20.0 – 20.0): met"), (0.5, "4.00 (4.00 – 4.00): missed")]
)
def test_the_kernel_is_compared_with_the_fastest_form_of_torch(gram, bench, ours, verdict):
    seconds = {gram.OURS: ours, gram.CORE: 0.01, "steps": 9.0, "toeplitz": 2.0}
    rounds = bench("timing").Rounds({name: {0: taken} for name, taken in seconds.items()})
    text = gram.section(gram.GOAL_CASE, rounds, ["steps", "toeplitz"])
    assert "speedup over toeplitz" in text
    assert f"Measured {verdict}." in text
    assert "Goal" not in gram.section(gram.CASES[1], rounds, ["steps", "toeplitz"])
