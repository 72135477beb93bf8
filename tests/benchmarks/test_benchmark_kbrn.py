"""The benchmark of KBRN: it verifies, measures everything, and tells the goal."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from representer.ops import core


@pytest.fixture
def kbrn(bench) -> ModuleType:
    """Return the script as a module."""
    return bench("kbrn")


def test_another_layer_is_not_measured(kbrn: ModuleType, monkeypatch: pytest.MonkeyPatch):
    kbrn.verify(3, 6)
    right = kbrn.loop
    monkeypatch.setattr(kbrn, "loop", lambda layer, x: right(layer, x) + 1e-6)
    with pytest.raises(SystemExit, match="the layer is not the loop"):
        kbrn.verify(3, 6)


@pytest.mark.skipif(core.LIBRARY is None, reason=core.MISSING or "")
def test_every_candidate_is_in_the_table(kbrn: ModuleType):
    rounds = kbrn.measure(2, 6, 3)
    page = kbrn.page({kbrn.PLAIN: rounds, kbrn.KEPT: rounds}, ("0.1", "0.2"))
    for name in (kbrn.LAYER, kbrn.LOOP, kbrn.TORCH, kbrn.LSTM):
        assert page.count(f"| {name} |") == 2
    assert page.count("The goal is 20 times") == 2
    assert not torch.is_inference_mode_enabled()
