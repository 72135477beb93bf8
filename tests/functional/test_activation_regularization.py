"""AR and TAR are the sums as written."""

from __future__ import annotations

import pytest
import torch

from representer.errors import ShapeError
from representer.functional import activation_regularization


def test_the_penalties_match_sums_over_entries_and_steps() -> None:
    torch.manual_seed(0)
    dropped, raw = torch.randn(2, 4, 3, 5, dtype=torch.float64).unbind()
    ar = sum(v * v for v in dropped.flatten().tolist()) / (4 * 3 * 5)
    steps = [(raw[t + 1] - raw[t]).flatten().tolist() for t in range(3)]
    tar = sum(v * v for step in steps for v in step) / (3 * 3 * 5)
    result = activation_regularization(dropped, raw, alpha=2.5, beta=0.7)
    assert result.item() == pytest.approx(2.5 * ar + 0.7 * tar, rel=1e-12)


def test_the_defaults_are_those_of_the_paper() -> None:
    raw = torch.tensor([[[1.0]], [[4.0]]])
    assert activation_regularization(raw / 2, raw).item() == 2 * (0.25 + 4) / 2 + 1 * 9


def test_tar_is_zero_for_one_step() -> None:
    x = torch.full((1, 2, 3), 2.0)
    assert activation_regularization(x, x, 1, 1).item() == 4


def test_mismatched_shapes_are_rejected() -> None:
    with pytest.raises(ShapeError, match=r"dropped has shape \(2, 3\)"):
        activation_regularization(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(ShapeError, match=r"\(2, 3, 4\); expected \(2, 3, 5\), the shape of"):
        activation_regularization(torch.ones(2, 3, 5), torch.ones(2, 3, 4))
