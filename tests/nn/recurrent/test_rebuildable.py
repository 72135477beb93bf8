"""Named tuples that are rebuilt from iterables."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

from representer.nn.recurrent.states import rebuildable


@rebuildable
class Pair(NamedTuple):
    h: object
    c: object = 5


@rebuildable
class Single(NamedTuple):
    window: object


def test_a_pair_takes_its_fields_or_an_iterable_over_them():
    for pair in (Pair([1, 2]), Pair(x for x in (1, 2)), Pair(1, 2), Pair(1, c=2), Pair(h=1, c=2)):
        assert type(pair) is Pair
        assert pair == (1, 2)
    for wrong in ((1, 2, 3), ([1, 2, 3],)):
        with pytest.raises(TypeError, match="positional arguments"):
            Pair(*wrong)


def test_a_tensor_is_a_field_and_not_an_iterable_over_fields():
    h = torch.zeros(2)
    assert Pair(h).h is h


def test_a_tuple_of_one_field_takes_only_an_iterator_apart():
    window = (torch.zeros(2, 3),)
    assert Single(window).window is window
    assert Single(window=window).window is window
    assert Single(part for part in (window,)).window is window
