from __future__ import annotations

import random
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from representer.data.text import length_buckets
from representer.errors import ArgumentError


@given(
    lengths=st.lists(st.integers(0, 50), max_size=200), batch_size=st.integers(1, 20),
    seed=st.integers(-5, 2**64), epoch=st.integers(0, 100), bucket=st.integers(1, 10),
)  # fmt: skip
def test_every_document_is_in_exactly_one_batch(lengths, batch_size, seed, epoch, bucket):
    batches = length_buckets(lengths, batch_size, seed, epoch, bucket=bucket)
    assert sorted(chain.from_iterable(batches)) == list(range(len(lengths)))
    sizes = sorted(map(len, batches), reverse=True)
    assert all(size == batch_size for size in sizes[:-1])
    assert batches == length_buckets(lengths, batch_size, seed, epoch, bucket=bucket)


def skewed(count: int) -> list[int]:
    rng = random.Random(0)
    return [int(rng.lognormvariate(3, 1)) + 1 for _ in range(count)]


def padding(lengths: list[int], batches: list[list[int]]) -> float:
    padded = sum(max(lengths[i] for i in batch) * len(batch) for batch in batches)
    return padded / sum(lengths)


def test_batches_are_in_random_order():
    lengths = list(range(1000))
    longest = [max(batch) for batch in length_buckets(lengths, 10, 0, 0)]
    rising = sum(a < b for a, b in pairwise(longest))
    assert 30 < rising < 70


def test_the_order_differs_between_seeds_and_epochs():
    lengths = skewed(300)
    orders = [length_buckets(lengths, 8, seed, epoch) for seed in range(3) for epoch in range(3)]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])


def test_the_order_of_an_epoch_is_the_same_on_every_machine():
    assert length_buckets([3, 1, 2, 5, 4, 1], 2, seed=7, epoch=1) == [[5, 1], [4, 3], [2, 0]]


@pytest.mark.parametrize("sizes", [{"batch_size": 0}, {"bucket": 0}])
def test_invalid_sizes_are_rejected(sizes):
    with pytest.raises(ArgumentError, match="1 or more"):
        length_buckets([1, 2], **{"batch_size": 1, "seed": 0, "epoch": 0, **sizes})
