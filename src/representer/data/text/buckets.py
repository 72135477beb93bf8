"""Batches of documents of similar length, in a random order determined by the seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from representer.errors import ArgumentError


def length_buckets(
    lengths: Sequence[int], batch_size: int, seed: int, epoch: int, *, bucket: int = 50
) -> list[list[int]]:
    """Return the batches of an epoch, as positions of documents.

    The documents are shuffled and split into pools of ``bucket`` batches; each pool is sorted by
    length and split into batches; then all batches are shuffled. Each document is in exactly one
    batch, and all batches but one are full. The result depends only on the arguments, so an
    interrupted epoch can be resumed.

    Args:
        lengths: The length of each document.
        batch_size: Number of documents in a batch.
        seed: The seed of the run.
        epoch: The number of the epoch; each epoch has a different order.
        bucket: Number of batches in a pool. 1 gives random batches; larger pools, less padding.

    Raises:
        ArgumentError: If ``batch_size`` or ``bucket`` is less than 1.
    """
    for name, value in (("batch_size", batch_size), ("bucket", bucket)):
        if value < 1:
            raise ArgumentError(name, value, "1 or more")
    rng = random.Random(f"{seed}/{epoch}")
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches = []
    pool_size = bucket * batch_size
    for start in range(0, len(order), pool_size):
        pool = sorted(order[start : start + pool_size], key=lambda document: lengths[document])
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    rng.shuffle(batches)
    return batches
