"""Which evaluation is best, and when to stop."""

from __future__ import annotations

import pytest

from representer.training.config import best_index, has_collapsed, is_above_older, is_exhausted


@pytest.mark.parametrize(
    ("values", "direction", "best"),
    [
        ([], "max", None), ([None, None], "max", None), ([1.0], "min", 0),
        ([1.0, 3.0, 2.0], "max", 1), ([1.0, 3.0, 2.0], "min", 0), ([2.0, 2.0, 1.0], "max", 0),
        ([None, 2.0, None, 2.5], "max", 3), ([-1.0, -2.0, -2.0], "min", 1),
    ],
)  # fmt: skip
def test_the_first_of_the_best_is_the_best(values, direction, best) -> None:
    assert best_index(values, direction) == best


@pytest.mark.parametrize(
    ("values", "patience", "is_over"),
    [
        ([1.0, 0.5, 0.5], 2, True), ([1.0, 0.5], 2, False), ([1.0, 0.5, 2.0], 2, False),
        ([1.0, 1.0, 1.0], 2, True), ([None, None], 2, True), ([None], 2, False),
        ([1.0] * 99, None, False), ([], 1, False),
    ],
)  # fmt: skip
def test_patience_counts_evaluations_without_a_new_best(values, patience, is_over) -> None:
    assert is_exhausted(values, "max", patience) == is_over


@pytest.mark.parametrize(
    ("values", "direction", "max_drop", "is_over"),
    [
        ([1.0, 0.5], "max", 0.5, True), ([1.0, 0.75], "max", 0.5, False),
        ([0.0, 1.0, 0.5, 0.75], "max", 0.5, False), ([0.0, 2.0], "max", 0.5, False),
        ([0.5, 1.0], "min", 0.5, True), ([1.0, 0.5], "min", 0.25, False),
        ([1.0, None], "max", 0.5, False), ([None], "max", 0.5, False),
        ([1.0, 0.0], "max", None, False), ([], "max", 0.5, False),
    ],
)  # fmt: skip
def test_a_collapse_is_the_last_value_being_far_behind_the_best(
    values, direction, max_drop, is_over
) -> None:
    assert has_collapsed(values, direction, max_drop) == is_over


@pytest.mark.parametrize(
    ("values", "direction", "recent", "is_over"),
    [
        ([], "min", 2, False), ([1.0, 2.0, 3.0], "min", 2, False),
        ([1.0, 2.0, 3.0, 1.5], "min", 2, True), ([1.0, 2.0, 3.0, 1.0], "min", 2, False),
        ([1.0, 2.0, 3.0, 1.5], "min", 3, False), ([1.0, 2.0, 3.0, 1.5], "min", None, False),
        ([None, 2.0, 3.0, 1.5], "min", 2, False), ([1.0, 2.0, 3.0, None], "min", 2, False),
        ([3.0, 1.0, 2.0], "max", 1, True), ([3.0, 1.0, 4.0], "max", 1, False),
    ],
)  # fmt: skip
def test_an_evaluation_may_be_worse_than_the_older_ones(values, direction, recent, is_over) -> None:
    assert is_above_older(values, direction, recent) is is_over
