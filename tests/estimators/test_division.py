"""estimators.division: how much is held out for validation."""

from __future__ import annotations

import pytest

from representer.estimators.division import validation_fraction


@pytest.mark.parametrize(
    ("given", "count", "test", "expected"),
    [
        (0.05, 100, 0.0, 0.05),
        (0.0, 100, 0.0, 0.0),
        (None, 20_000, 0.1, 0.1),
        (None, 1000, 0.0, 0.1),
        (None, 500, 0.0, 0.2),
        (None, 334, 0.0, 100 / 334),
        (None, 20, 0.0, 0.3),
        (None, 20, 0.8, 0.1),
    ],
)
def test_a_tenth_is_held_out_and_of_small_data_as_much_as_weighs_kernel_and_network(
    given: float | None, count: int, test: float, expected: float
) -> None:
    assert validation_fraction(given, count, test) == pytest.approx(expected)
