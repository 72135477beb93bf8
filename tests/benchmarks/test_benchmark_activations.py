"""The benchmark of learned activations: it verifies, measures everything, and tells the goals."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from representer.ops import core


@pytest.fixture
def activations(bench) -> ModuleType:
    """Return the script as a module."""
    return bench("activations")


def test_another_function_is_not_measured(activations: ModuleType, monkeypatch: pytest.MonkeyPatch):
    activations.verify(5)
    monkeypatch.setattr(
        activations, "kernel_activation", lambda a, c, chi, green: a * c.sum() * chi.sum()
    )
    with pytest.raises(SystemExit, match="abs with 5 centers differs from the sum"):
        activations.verify(5)


@pytest.mark.skipif(core.LIBRARY is None, reason=core.MISSING or "")
def test_every_candidate_is_in_the_table(activations: ModuleType):
    modes = (activations.FORWARD, activations.TRAINING)
    found = {(100, mode): activations.measure(50, 100, mode, 3) for mode in modes}
    page = activations.page(found, 50, ("0.1", "0.2"))
    for name in ("g = abs", "g = cubic", "g = gaussian", "torch.tanh", "sum over all centers"):
        assert page.count(f"| {name} |") == 2
    assert page.count("times sum over all centers: m") == 2
    assert page.count("times torch.tanh: m") == 1
    assert not torch.is_inference_mode_enabled()
