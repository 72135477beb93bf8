"""A text as parallel streams, and the segments in which they are read."""

from __future__ import annotations

import random
from collections.abc import Iterator

from torch import Tensor

from representer.errors import ArgumentError, DataError


def fold(tokens: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Cut a text into parallel streams.

    Args:
        tokens: ``(N,)``.
        rows: B, streams. Each has ⌊(N − 1) / B⌋ tokens; what is left over at the end is not used.

    Returns:
        What is read and what is to be predicted, ``(T, B)`` each: the second is one token ahead.

    Raises:
        ArgumentError: If there is no stream.
        DataError: If the text is too short for so many.
    """
    if rows < 1:
        raise ArgumentError("batch_size", rows, "1 or more")
    steps = (len(tokens) - 1) // rows
    if steps < 1:
        mend = "Give a longer text, or a smaller --batch-size."
        raise DataError(f"{len(tokens)} tokens are too few for {rows} streams", mend=mend)
    used = steps * rows
    return tokens[:used].view(rows, steps).T, tokens[1 : used + 1].view(rows, steps).T


def fixed_segments(steps: int, length: int) -> list[tuple[int, int]]:
    """Return (start, length) of segments of one length; the last may be shorter.

    Raises:
        ArgumentError: If the length is not positive.
    """
    if length < 1:
        raise ArgumentError("unroll", length, "1 or more")
    return [(start, min(length, steps - start)) for start in range(0, steps, length)]


def variable_segments(steps: int, length: int, seed: int, epoch: int) -> list[tuple[int, int]]:
    """Return (start, length) of segments whose lengths vary, so that their borders do.

    The base is ``length`` with probability 0.95 and half of it otherwise; a segment is drawn from a
    normal distribution about it with deviation 5, and has at least 5 steps but for the last one.
    Nothing but the arguments decides the result.

    Args:
        steps: T, of a stream.
        length: The usual length.
        seed: Of the run.
        epoch: Each has other segments.

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
