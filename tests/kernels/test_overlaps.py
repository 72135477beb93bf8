"""Counts that objects share, and a kernel of numbers with exact parts."""

from __future__ import annotations

import numpy as np
import pytest

from representer.kernels.overlaps import ColorCounts, NumberSpace, overlap

RNG = np.random.default_rng(0)


def test_common_counts_are_sums_of_minima_and_divide_into_colors():
    colors = [RNG.integers(0, 4, size) for size in (3, 0, 7, 5)]
    counts = ColorCounts.of(colors, 4)
    plain = np.array([np.bincount(own, minlength=4) for own in colors])
    common = np.minimum(plain[:, None], plain[None]).sum(-1)
    assert np.array_equal(counts.common(counts), common)
    weights = RNG.normal(size=4)
    parts = counts.at(np.array([2])).parts(counts, weights)
    assert sum(parts.values()) == pytest.approx(common[2] @ weights)
    of_colors = np.minimum(plain[2], plain).T @ weights
    for color, value in parts.items():
        assert value == pytest.approx(of_colors[color])
    sizes = counts.sizes[:, None], counts.sizes
    assert overlap(common.astype(float), *sizes)[1].tolist() == [0, 1, 0, 0]
    assert overlap(common.astype(float), *sizes, "assignment")[1].tolist() == [0, 1, 0, 0]


def test_numbers_are_standardized_and_unknown_ones_are_average():
    table = np.column_stack([RNG.normal(5, 2, 50), np.full(50, 7.0), RNG.normal(size=50)])
    table[0, 2] = np.nan
    space = NumberSpace.find(table)
    z = space.encode(table)
    assert z[0, 2] == 0
    assert (z[:, 1] == 0).all()  # a constant tells nothing
    assert space.encode(np.array([[1e9, 8.0, -np.inf]])).tolist() == [[3.0, 0.0, -3.0]]
    apart = ((z[:, None] - z[None]) ** 2).sum(-1)
    assert np.median(apart[np.triu_indices(50, 1)]) == pytest.approx(space.width)
    np.testing.assert_allclose(space.overlaps(z, z), np.exp(-apart / space.width), atol=1e-12)


def test_the_parts_of_numbers_sum_to_the_difference_from_the_average():
    space = NumberSpace.find(RNG.normal(size=(30, 5)))
    others, coefficients = space.encode(RNG.normal(size=(30, 5))), RNG.normal(size=30)
    z = space.encode(RNG.normal(size=(1, 5)))[0]
    first, parts = space.parts(z, others, coefficients)
    total = (space.overlaps(z[None], others) @ coefficients)[0]
    assert first == pytest.approx((space.overlaps(0 * z[None], others) @ coefficients)[0])
    assert first + parts.sum() == pytest.approx(total, abs=1e-14)
    # a number that no other changes with has what it changes alone
    only = np.array([z[0], 0, 0, 0, 0])
    parts = space.parts(only, others, coefficients)[1]
    assert (parts[1:] == 0).all()
