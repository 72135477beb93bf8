"""When to use the library: verdicts follow intervals, and the page what the command writes."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "when.md"


@pytest.fixture
def when(bench):
    return bench("when")


@pytest.mark.parametrize(("low", "high", "margin", "verdict"), [
    (0.1, 2.0, 0.0, "ahead"), (-2.0, -0.1, 0.0, "behind"), (-0.1, 2.0, 0.0, "level"),
    (0.0, 0.0, 0.0, "level"),
    (math.log(1.05), math.log(1.4), math.log(1.1), "level"),
    (math.log(1.15), math.log(1.4), math.log(1.1), "ahead"),
    (math.log(0.7), math.log(0.95), math.log(1.1), "level"),
    (math.log(0.7), math.log(0.8), math.log(1.1), "behind"),
])  # fmt: skip
def test_a_verdict_follows_the_interval_and_the_margin(when, low, high, margin, verdict):
    assert when.Comparison("", "", "", low, high, "", "", margin).verdict == verdict


def test_less_is_better_for_errors_and_perplexities(when):
    found = {one.data: one for one in when.own_data()}
    assert found["ESOL"].figure.startswith("-")
    assert found["ESOL"].verdict == "ahead"
    assert found["AG News, subset"].low > 0


def test_losses_are_on_the_page(when):
    found = when.comparisons()
    counts = Counter(one.verdict for one in found)
    assert min(counts[verdict] for verdict in ("ahead", "level", "behind")) > 0
    behind = {(one.ours, one.data) for one in found if one.verdict == "behind"}
    assert ("`RandomWalkKernelNN`", "ring or chain") in behind
    assert ("`WLKernelNN`, gated", "training, one epoch") in behind
    assert when.rows(found, "behind")


def test_the_page_is_what_the_command_writes(when):
    assert PAGE.read_text("utf-8") == when.text()
