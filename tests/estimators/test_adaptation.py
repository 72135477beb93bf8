"""Options of an evaluation: ranges, and no option without effect."""

from __future__ import annotations

import pytest

from representer.errors import ArgumentError
from representer.estimators.language_parameters import Adaptation


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache_share": 1.5}, "cache_share is 1.5; expected a number from 0 to 1"),
        ({"cache_share": 0.1, "cache_window": 0}, "cache_window is 0; expected 1 or more"),
        ({"cache_share": 0.1, "cache_theta": float("nan")}, "cache_theta is nan"),
        ({"dynamic_lr": -1.0}, "dynamic_lr is -1.0; expected a finite number ≥ 0"),
        ({"dynamic_lr": 1.0, "dynamic_decay": 2.0}, "dynamic_decay is 2.0"),
        ({"cache_theta": 1.0}, "cache_theta is 1.0; expected 0.3 without --cache-share"),
        ({"cache_window": 9}, "cache_window is 9; expected 2000 without --cache-share"),
        ({"dynamic_decay": 0.1}, "dynamic_decay is 0.1; expected 0.0 without --dynamic-lr"),
    ],
)
def test_a_value_out_of_range_or_without_effect_is_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        Adaptation(**options)


def test_what_has_an_effect_is_taken():
    assert Adaptation(cache_share=0.1, cache_theta=1.0, cache_window=9).cache_window == 9
    assert Adaptation(dynamic_lr=1.0, dynamic_decay=0.1).dynamic_decay == 0.1
