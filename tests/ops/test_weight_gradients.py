"""Gradients of weights over all steps: every layout of the product gives the same sum."""

from __future__ import annotations

import pytest
import torch

from representer.ops import core
from representer.ops.common import FEW_ROWS, SHORT, transpose, weight_gradient

ROWS = {"few": FEW_ROWS, "fewer than of the product": 72, "more": 12 * (SHORT * 8 + 1)}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("by_core", [False, True])
def test_a_weight_gradient_is_the_sum_over_steps(rows: int, is_cut: bool, by_core: bool) -> None:
    """dW = sum_t dz_t x_t', of gates and features that are a part of larger arrays, too."""
    generator = torch.Generator().manual_seed(rows)
    dz, inputs = (
        torch.randn(rows // 4, 4, *shape, generator=generator, dtype=torch.float64)
        for shape in ((5, 24), (11,))
    )
    if is_cut:
        dz, inputs = dz[:, :, 1:], inputs[..., 2:9]
    else:
        dz = dz[..., :8].contiguous()
    use = (core.transpose, core.product) if by_core else (transpose, torch.mm)
    expected = torch.einsum("tbgh,tbi->ghi", dz, inputs)
    torch.testing.assert_close(weight_gradient(dz, inputs, *use), expected, rtol=1e-13, atol=1e-12)
