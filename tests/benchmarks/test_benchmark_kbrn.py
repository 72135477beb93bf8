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
    with pytest.raises(SystemExit, match="the layer differs from the loop"):
        kbrn.verify(3, 6)


@pytest.mark.skipif(core.LIBRARY is None, reason=core.MISSING or "")
def test_every_candidate_is_in_the_table(kbrn: ModuleType):
    rounds = kbrn.measure(2, 6, 3)
    page = kbrn.page({kbrn.PLAIN: rounds, kbrn.KEPT: rounds}, ("0.1", "0.2"))
    for name in (kbrn.LAYER, kbrn.LOOP, kbrn.TORCH, kbrn.LSTM):
        assert page.count(f"| {name} |") == 2
    assert page.count("The goal is 20 times") == 2
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize(("loop", "verdict"), [(30.0, "met, 30 times"), (10.0, "missed, 10 times")])
def test_the_table_divides_the_loop_by_each_candidate(kbrn: ModuleType, bench, loop, verdict):
    seconds = {kbrn.LAYER: 1.0, kbrn.LSTM: 4.0, kbrn.LOOP: loop}
    rounds = bench("timing").Rounds({name: {0: taken} for name, taken in seconds.items()})
    page = kbrn.page({kbrn.PLAIN: rounds}, ("0", "0"))
    assert f"| {kbrn.LAYER} | 1000.0 | {loop:.1f} |" in page
    assert f"| {kbrn.LSTM} | 4000.0 | {loop / 4:.3g}" in page
    assert f"times the {kbrn.LOOP}: {verdict}." in page
