"""Streams and segments: every token once, in order, with the next token as target."""

from __future__ import annotations

import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from representer.data.language import fixed_segments, fold, variable_segments
from representer.errors import ArgumentError, DataError


@given(st.integers(2, 60), st.integers(1, 8))
def test_streams_contain_the_text_in_order_and_targets_are_the_next_tokens(length, rows):
    tokens = torch.arange(length)
    if length - 1 < rows:
        with pytest.raises(DataError, match=f"{length} tokens are too few for {rows} streams"):
            fold(tokens, rows)
        return
    inputs, targets = fold(tokens, rows)
    steps = (length - 1) // rows
    assert inputs.shape == targets.shape == (steps, rows)
    assert inputs.T.flatten().tolist() == list(range(steps * rows))
    assert (targets == inputs + 1).all()


def test_a_batch_size_of_zero_is_rejected():
    with pytest.raises(ArgumentError, match="batch_size is 0; expected 1 or more"):
        fold(torch.arange(9), 0)


def covered(segments):
    return [step for start, length in segments for step in range(start, start + length)]


@given(st.integers(1, 300), st.integers(1, 80), st.integers(0, 9), st.integers(0, 9))
def test_segments_cover_every_step_once_and_in_order(steps, length, seed, epoch):
    assert covered(fixed_segments(steps, length)) == list(range(steps))
    variable = variable_segments(steps, length, seed, epoch)
    assert covered(variable) == list(range(steps))
    assert all(size >= 5 for _, size in variable[:-1])
    assert variable == variable_segments(steps, length, seed, epoch)


def test_fixed_segments_have_equal_length_except_the_last():
    assert fixed_segments(10, 4) == [(0, 4), (4, 4), (8, 2)]


def test_variable_segments_have_the_lengths_of_the_recipe():
    lengths = [size for _, size in variable_segments(700_000, 70, 1, 0)][:-1]
    short = [size for size in lengths if size < 52]  # 70 and 35 lie 7 deviations apart
    long = [size for size in lengths if size >= 52]
    assert len(short) / len(lengths) == pytest.approx(0.05, abs=0.01)  # 3 deviations of 10,000
    # a normal number cut to a whole one is half less on average; 0.15 are 3 deviations of 9,500
    assert statistics.mean(long) == pytest.approx(69.5, abs=0.15)
    assert statistics.mean(short) == pytest.approx(34.5, abs=0.7)
    assert statistics.stdev(long) == pytest.approx(5, abs=0.15)


def test_segments_differ_between_epochs_and_seeds():
    kinds = {tuple(variable_segments(5000, 70, s, e)) for s in range(3) for e in range(3)}
    assert len(kinds) == 9


@pytest.mark.parametrize("segments", [fixed_segments, lambda t, n: variable_segments(t, n, 0, 0)])
def test_a_segment_has_at_least_one_step(segments):
    with pytest.raises(ArgumentError, match="unroll is 0; expected 1 or more"):
        segments(10, 0)
