"""L17's resampling: uniform over bins, and in turn within a bin."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from representer.data.molecules import BalancedDraws
from representer.errors import ArgumentError

VALUES = [0.01, 0.02, 0.03, 0.04, 0.049, 0.06, 0.11, 0.12, -0.01]  # bins of 5, 1, 2 and 1


def test_bins_are_drawn_uniformly_and_their_examples_in_turn():
    draws = BalancedDraws(VALUES, 0.05)
    assert draws.bins == 4
    found = [i for e in range(1000) for i in draws.epoch(e)]
    assert len(found) == 1000 * len(VALUES)
    counts = Counter(found)
    per_bin = [sum(counts[i] for i in group) for group in (range(5), [5], [6, 7], [8])]
    assert np.allclose(per_bin, len(found) / 4, rtol=0.06)  # 4 standard deviations
    assert max(counts[i] for i in range(5)) - min(counts[i] for i in range(5)) <= 1
    of_first = [i for i in found if i < 5]
    assert all(of_first[k] == of_first[k + 5] for k in range(len(of_first) - 5))


def test_an_epoch_depends_only_on_seed_and_number():
    in_order = BalancedDraws(VALUES, 0.05, seed=3)
    wanted = [in_order.epoch(e) for e in range(6)]
    assert BalancedDraws(VALUES, 0.05, seed=3).epoch(5) == wanted[5]
    assert in_order.epoch(2) == wanted[2]
    assert wanted[0] != wanted[1]
    assert BalancedDraws(VALUES, 0.05, seed=4).epoch(0) != wanted[0]
    assert len(BalancedDraws(VALUES, 0.05).epoch(1, 20)) == 20


def test_the_lower_edge_belongs_to_a_bin():
    assert BalancedDraws([0.0, 0.25, 0.49], 0.5).bins == 1
    assert BalancedDraws([0.0, 0.5], 0.5).bins == 2


@pytest.mark.parametrize(
    ("values", "width", "name"), [([], 1, "values"), ([np.nan], 1, "values"), ([1.0], 0, "width")]
)
def test_invalid_values_and_widths_are_rejected(values, width, name):
    with pytest.raises(ArgumentError, match=name):
        BalancedDraws(values, width)
