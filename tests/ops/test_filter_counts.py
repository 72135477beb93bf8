"""Counts of the outputs of filters on the core, against their definition."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ops.trials import threads
from representer.errors import ShapeError
from representer.kernels import ConvolutionKernel
from representer.kernels.convolution_kernel import COUNTED
from representer.ops import core
from representer.ops.features import TAPS, filter_counts

LENGTHS = (1, 2, 8, 9, 31, 511, 512, 513, 1100)

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING or "")


def definition(padded, lengths, dilation, triples, thresholds):
    """Return counts and sums, a series, a filter and a threshold at a time."""
    counts, excess = np.empty((2, len(padded), *thresholds.shape))
    for n, length in enumerate(lengths):
        taps = [padded[n, k * dilation :][:length] for k in range(TAPS)]
        total = sum(taps[1:], taps[0])
        for r, triple in enumerate(triples):
            z = total / padded.dtype.type(TAPS)
            if triple[0] >= 0:
                a, b, c = (taps[k] for k in triple)
                z = (a + b + c) * padded.dtype.type(3) - total
            for j, bound in enumerate(thresholds[r]):
                counts[n, r, j] = (z > bound).sum()
                excess[n, r, j] = np.maximum(z - bound, 0).sum(dtype=np.float64)
    return counts, excess


@pytest.mark.parametrize("isa", core.USABLE)
@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("dilation", "count"), [(1, 1), (3, 5), (200, 2)])
def test_counts_and_sums_are_those_of_the_definition(isa, number, dtype, dilation, count):
    rng, reach = np.random.default_rng(0), 4 * dilation
    triples = np.array([*combinations(range(TAPS), 3), (-1, -1, -1)])
    padded = np.zeros((len(LENGTHS), max(LENGTHS) + 2 * reach), dtype)
    for row, length in zip(padded, LENGTHS, strict=True):
        row[reach : reach + length] = rng.normal(size=length)
    thresholds = rng.normal(size=(len(triples), count)).astype(dtype)
    thresholds[0], thresholds[1] = np.inf, -np.inf
    arguments = padded, np.array(LENGTHS), dilation, triples, thresholds
    expected, sums = definition(*arguments)
    is_finite = np.isfinite(thresholds[:, 0])
    with core.instruction_set(isa), threads(number):
        counts, excess = filter_counts(*arguments)
        again, none = filter_counts(*arguments, has_excess=False)
    assert none is None
    np.testing.assert_array_equal(counts, expected)
    np.testing.assert_array_equal(again, expected)
    assert excess is not None
    np.testing.assert_allclose(excess[:, is_finite], sums[:, is_finite], rtol=1e-12, atol=1e-12)


def test_taps_that_no_filter_has_are_refused():
    padded, ones = np.zeros((1, 19), np.float32), np.ones((1, 1), np.float32)
    with pytest.raises(Exception, match="filter_counts"):
        filter_counts(padded, np.array([11]), 1, np.array([[0, 1, 9]]), ones)
    for triple in ([0, -1, -1], [-1, 0, 1], [0, 1, -512]):
        with pytest.raises(Exception, match="filter_counts"):
            filter_counts(padded, np.array([11]), 1, np.array([triple]), ones)
    with pytest.raises(Exception, match="filter_counts"):
        filter_counts(padded, np.array([12]), 1, np.array([[0, 1, 2]]), ones)


def test_as_many_lengths_and_filters_as_series_and_thresholds_are_needed():
    padded, ones, triple = np.zeros((2, 19), np.float32), np.ones((1, 1)), np.array([[0, 1, 2]])
    with pytest.raises(ShapeError, match="lengths"):
        filter_counts(padded, np.array([11]), 1, triple, ones)
    with pytest.raises(ShapeError, match="triples"):
        filter_counts(padded, np.array([11, 11]), 1, triple, np.ones((2, 1)))


@pytest.mark.parametrize("dtype", [np.int64, np.float16])
def test_numbers_of_other_precisions_are_read_in_that_of_the_core(dtype):
    padded, triples = np.arange(38).reshape(2, 19), np.array([[0, 1, 2], [-1, -1, -1]])
    arguments = np.array([11, 4]), 1, triples
    expected = filter_counts(padded.astype(np.float32), *arguments, np.full((2, 1), 7, np.float32))
    result = filter_counts(padded.astype(dtype), *arguments, np.full((2, 1), 7.0))
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("strange", [(), (np.nan,), (3e38, 3e38), (np.inf,)])
def test_a_kernel_of_series_has_the_same_features_without_the_core(monkeypatch, strange):
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(2, steps)).astype(np.float32) for steps in (1, 7, 40, 900, 41, 300)]
    kernel = ConvolutionKernel(2000)
    kernel.fit(series)
    series[2][0, 5 : 5 + len(strange)] = strange
    views = kernel.read(series).views
    monkeypatch.setattr(core, "MISSING", "it is not there")
    for view in COUNTED:
        without = kernel.read(series).views[view]
        np.testing.assert_allclose(views[view], without, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(views["share"], kernel.read(series).views["share"])
