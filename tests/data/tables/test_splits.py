from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from representer.data.tables import split
from representer.errors import ArgumentError, DataError

FRACTIONS = st.sampled_from([(0.9, 0.1), (0.8, 0.1, 0.1), (0.5, 0.5), (0.2, 0.8), (1.0,)])


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    fractions=FRACTIONS,
    seed=st.integers(0, 100),
)
def test_parts_are_disjoint_complete_and_have_the_classes_in_proportion(sizes, fractions, seed):
    labels = [f"class {number}" for number, size in enumerate(sizes) for _ in range(size)]
    try:
        result = split(labels, fractions, seed)
    except DataError:
        assume(False)
        raise
    assert sorted(chain.from_iterable(result)) == list(range(len(labels)))
    totals = Counter(labels)
    for part, fraction in zip(result, fractions, strict=True):
        assert part == sorted(part)
        counts = Counter(labels[position] for position in part)
        for label, total in totals.items():
            assert abs(counts[label] - total * fraction) <= 2
    assert {labels[position] for position in result.parts[0]} == set(labels)


@given(size=st.integers(2, 4), classes=st.integers(20, 60))
def test_many_small_classes_do_not_leave_a_part_empty(size, classes):
    labels = [str(number) for number in range(classes)] * size
    train, valid = split(labels, (0.9, 0.1), seed=0)
    assert abs(len(valid) - 0.1 * len(labels)) <= 1
    assert len(train) + len(valid) == len(labels)


def test_many_classes_with_one_document_do_not_change_the_fractions_of_others():
    labels = [f"single {i}" for i in range(500)] + ["big"] * 100
    train, valid = split(labels, (0.5, 0.5), seed=0)
    assert abs(Counter(labels[i] for i in train)["big"] - 50) <= 1
    assert {labels[i] for i in valid} == {"big"}


def test_classes_with_one_document_do_not_affect_later_assignments():
    labels = [f"{i:02} {kind}" for i in range(10) for kind in "aaaaabcccc"]
    train, valid = split(labels, (0.9, 0.1), seed=0)
    assert abs(len(valid) - 9) <= 1
    assert sum(labels[i].endswith("b") for i in train) == 10


def test_a_class_with_one_document_goes_to_training_and_is_reported():
    labels = ["a"] * 20 + ["b"] + ["c"] * 20
    result = split(labels, (0.8, 0.2), seed=3)
    assert 20 in result.parts[0]
    assert result.notes == ("Class 'b' has 1 document, in training; none of it is in part 2.",)


def test_training_has_every_class_for_any_fraction():
    labels = [str(number) for number in range(30)] * 2
    train, valid = split(labels, (0.1, 0.9), seed=0)
    assert {labels[i] for i in train} == set(labels)
    assert len(valid) == 30


def test_the_seed_determines_the_assignment():
    labels = ["a", "b"] * 50
    assert split(labels, (0.8, 0.2), 1).parts == split(labels, (0.8, 0.2), 1).parts
    assert split(labels, (0.8, 0.2), 1).parts != split(labels, (0.8, 0.2), 2).parts
    assert len(split(labels, (0.8, 0.2), 1)) == 2


@pytest.mark.parametrize("fractions", [(), (0.5, 0.4), (1.2, -0.2), (1.0, 0.0), (float("nan"), 1)])
def test_invalid_fractions_are_rejected(fractions):
    with pytest.raises(ArgumentError, match="sum to 1"):
        split(["a", "b"], fractions, 0)


def test_too_few_documents_are_rejected():
    with pytest.raises(DataError, match=r"2 documents cannot be divided .*: 2 \+ 0"):
        split(["a", "a"], (0.9, 0.1), 0)


@given(
    labels=st.lists(st.sampled_from("abc"), min_size=30, max_size=80),
    different=st.integers(15, 200),
    seed=st.integers(0, 100),
)
def test_equal_documents_are_in_one_part_and_without_any_the_split_is_as_ever(
    labels, different, seed
):
    digests = np.random.default_rng(seed).integers(different, size=len(labels))
    parts = split(labels, (0.6, 0.2, 0.2), seed, digests).parts
    assert sorted(chain.from_iterable(parts)) == list(range(len(labels)))
    kinds = [set(digests[part].tolist()) for part in parts]
    assert sum(map(len, kinds)) == len(set(digests.tolist()))
    alone = split(labels, (0.6, 0.2, 0.2), seed)
    assert split(labels, (0.6, 0.2, 0.2), seed, np.arange(len(labels)) * 7).parts == alone.parts


def test_copies_keep_the_fractions_and_the_classes_in_proportion():
    """Of 200 texts, each twice and every fifth of class b, those of both classes count as b."""
    labels = ["ab"[k % 5 == 0] for k in range(200)] + ["a"] * 200
    digests = np.tile(np.arange(200), 2)
    train, test = split(labels, (0.8, 0.2), 0, digests)
    assert abs(len(test) - 80) <= 2
    assert abs(sum(labels[i] == "b" for i in test) - 8) <= 1
    assert {labels[i] for i in train} == {"a", "b"}
