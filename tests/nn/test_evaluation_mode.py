"""Evaluation mode for a while."""

from __future__ import annotations

from torch import nn

from representer.ops.common import evaluating


def test_each_part_returns_to_its_own_mode():
    module = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2)))
    module[1].eval()
    before = [part.training for part in module.modules()]
    with evaluating(module):
        assert not any(part.training for part in module.modules())
    assert [part.training for part in module.modules()] == before == [True, True, *[False] * 3]
