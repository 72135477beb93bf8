from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from representer.data.text import equal_lengths
from representer.errors import ArgumentError


@given(
    lengths=st.lists(st.integers(0, 9), max_size=200),
    batch_size=st.integers(1, 20),
    seed=st.integers(-5, 2**64),
    epoch=st.integers(0, 100),
)
def test_every_document_is_in_one_batch_of_equal_lengths(lengths, batch_size, seed, epoch):
    batches = equal_lengths(lengths, batch_size, seed, epoch)
    assert sorted(chain.from_iterable(batches)) == list(range(len(lengths)))
    assert all(len({lengths[i] for i in batch}) == 1 for batch in batches)
    assert all(len(batch) <= batch_size for batch in batches)
    assert batches == equal_lengths(lengths, batch_size, seed, epoch)


def test_there_are_no_more_batches_than_needed():
    lengths = [1] * 10 + [2] * 9 + [7]
    batches = equal_lengths(lengths, 4, 0, 0)
    assert sorted(map(len, batches)) == [1, 1, 2, 4, 4, 4, 4]


def test_batches_and_order_differ_between_seeds_and_epochs():
    lengths = [i % 3 for i in range(90)]
    orders = [equal_lengths(lengths, 8, seed, epoch) for seed in range(3) for epoch in range(3)]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])
    together = [{frozenset(batch) for batch in batches} for batches in orders]
    assert all(a != b for i, a in enumerate(together) for b in together[:i])
    assert [lengths[batch[0]] for batch in orders[0]] != sorted(lengths[b[0]] for b in orders[0])


def test_the_order_of_an_epoch_is_the_same_on_every_machine():
    assert equal_lengths([3, 1, 1, 3, 3, 1], 2, seed=7, epoch=1) == [[2, 5], [0], [1], [4, 3]]


def test_an_invalid_size_is_rejected():
    with pytest.raises(ArgumentError, match="1 or more"):
        equal_lengths([1, 2], 0, 0, 0)
