"""A text as parallel streams, and the segments of backpropagation through time."""

from __future__ import annotations

import random
from collections.abc import Iterator

from torch import Tensor

from representer.errors import ArgumentError, DataError


def fold(tokens: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Cut a text into parallel streams.

    Args:
        tokens: ``(N,)``.
        rows: B, the number of streams. Each has ⌊(N − 1) / B⌋ tokens; the rest is not used.

    Returns:
        Inputs and targets, ``(T, B)`` each; the targets are one token ahead.

    Raises:
        ArgumentError: If ``rows`` is not positive.
        DataError: If the text is too short.
    """
    if rows < 1:
        raise ArgumentError("batch_size", rows, "1 or more")
    steps = (len(tokens) - 1) // rows
    if steps < 1:
        fix = "Pass a longer text, or a smaller --batch-size."
        raise DataError(f"{len(tokens)} tokens are too few for {rows} streams", fix=fix)
    used = steps * rows
    return tokens[:used].view(rows, steps).T, tokens[1 : used + 1].view(rows, steps).T


def fixed_segments(steps: int, length: int) -> list[tuple[int, int]]:
    """Return (start, length) of segments of equal length; the last may be shorter.

    Raises:
        ArgumentError: If the length is not positive.
    """
    if length < 1:
        raise ArgumentError("unroll", length, "1 or more")
    return [(start, min(length, steps - start)) for start in range(0, steps, length)]


def variable_segments(steps: int, length: int, seed: int, epoch: int) -> list[tuple[int, int]]:
    """Return (start, length) of segments of random lengths, so that their borders vary.

    The mean is ``length`` with probability 0.95 and half of it otherwise; a segment's length is
    normal with standard deviation 5 and at least 5, except for the last segment. The result depends
    only on the arguments.

    Args:
        steps: T, the length of a stream.
        length: The usual length.
        seed: The seed of the run.
        epoch: The number of the epoch; each epoch has different segments.

    References:
        Merity et al., Regularizing and Optimizing LSTM Language Models, ICLR 2018, section 5.
    """
    if length < 1:
        raise ArgumentError("unroll", length, "1 or more")
    return list(_variable(steps, length, random.Random(f"{seed}/{epoch}")))


def _variable(steps: int, length: int, rng: random.Random) -> Iterator[tuple[int, int]]:
    start = 0
    while start < steps:
        base = length if rng.random() < 0.95 else length / 2
        chosen = min(max(5, int(rng.gauss(base, 5))), steps - start)
        yield start, chosen
        start += chosen
