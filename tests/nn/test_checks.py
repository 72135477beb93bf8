"""Checks of the options of layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from representer.checks import check_integer
from representer.errors import ArgumentError
from representer.nn.checks import check_flag, check_probability


def test_valid_values_are_returned():
    assert check_integer("n", 3) == 3
    assert check_probability("p", 1) == 1.0
    assert check_probability("p", np.float32(0.5)) == 0.5
    values = (True, False, 1, 0, np.bool_(True))
    assert [check_flag("n", value) for value in values] == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (check_integer, 0, "n is 0; expected a positive integer"),
        (check_integer, True, "n is True; expected a positive integer"),
        (lambda name, value: check_integer(name, value, 0), -1, "an integer of at least 0"),
        (lambda name, value: check_integer(name, value, 2, 4), 5, "an integer from 2 to 4"),
        (check_probability, 1.5, "n is 1.5; expected a number from 0 to 1"),
        (check_probability, False, "n is False; expected a number from 0 to 1"),
        (check_flag, "False", "n is 'False'; expected True or False"),
        (check_flag, 2, "n is 2; expected True or False"),
        (check_flag, 1.0, "n is 1.0; expected True or False"),
        (check_flag, None, "n is None; expected True or False"),
    ],
)
def test_other_values_are_named(check: Any, value: Any, message: str):
    with pytest.raises(ArgumentError, match=message):
        check("n", value)
