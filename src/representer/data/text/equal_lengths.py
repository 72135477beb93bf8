"""Batches of documents of equal length, in a random order determined by the seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from representer.errors import ArgumentError


def equal_lengths(
    lengths: Sequence[int], batch_size: int, seed: int, epoch: int
) -> list[list[int]]:
    """Return the batches of an epoch, as positions of documents; no batch needs padding.

    The documents of each length are shuffled and split into batches, the last of which may be
    smaller; then all batches are shuffled. Each document is in exactly one batch. The result
    depends only on the arguments, so an interrupted epoch can be resumed.

    Args:
        lengths: The length of each document.
        batch_size: Maximum number of documents in a batch.
        seed: The seed of the run.
        epoch: The number of the epoch; each epoch has different batches.

    Raises:
        ArgumentError: If ``batch_size`` is less than 1.
    """
    if batch_size < 1:
        raise ArgumentError("batch_size", batch_size, "1 or more")
    rng = random.Random(f"{seed}/{epoch}")
    by_length: dict[int, list[int]] = {}
    for document, length in enumerate(lengths):
        by_length.setdefault(length, []).append(document)
    batches = []
    for _, documents in sorted(by_length.items()):
        rng.shuffle(documents)
        batches += [
            documents[start : start + batch_size] for start in range(0, len(documents), batch_size)
        ]
    rng.shuffle(batches)
    return batches
