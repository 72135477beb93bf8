"""Derived fields are there before they are read, as torch.compile needs."""

from __future__ import annotations

from functools import cached_property

import pytest

from representer.functional import Cell, StringChain


@pytest.mark.parametrize("made", [Cell("dynamic", "dynamic", True), StringChain(2)])
def test_every_cached_property_is_computed_when_the_object_is_made(made):
    names = {name for name, own in vars(type(made)).items() if isinstance(own, cached_property)}
    assert len(names) >= 5
    assert names <= set(vars(made))
