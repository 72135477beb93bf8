"""The gradient of rkm_scan in torch: blocks of steps, and gradients computed by hand."""

from __future__ import annotations

import pytest
import torch

from looped import looped
from ops.samples.rkm_scan import CELLS, tensors
from representer.functional.rkm import Cell
from representer.ops import rkm_scan
from representer.ops.rkm_scan import reference


def _gradients(cell: Cell, options: str, reverse: bool) -> tuple[torch.Tensor, ...]:
    operands = {"weight": None, **tensors(cell, (5, 3, 4), options, torch.float64)}
    names = ("z", "weight", "h0", "c0", "static", "norm")
    marked = [operands[n].requires_grad_() for n in names if operands.get(n) is not None]
    results = rkm_scan(**operands, cell=cell, reverse=reverse, backend="reference")
    slopes = [torch.full_like(r, 0.5) + r.detach() for r in results]
    return torch.autograd.grad(results, marked, slopes, materialize_grads=True)


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
@looped("reverse", [False, True])
@looped("options", ["", "norm hold lengths"])
def test_computing_the_factors_in_blocks_of_steps_changes_no_bit(
    cell: Cell, reverse: bool, options: str, monkeypatch: pytest.MonkeyPatch
):
    whole = _gradients(cell, options, reverse)
    entries = 3 * len(cell.gates) * 4
    for steps_in_block in (1, 2, 3):  # 5 steps: whole blocks, and a shorter last one
        monkeypatch.setattr(reference, "BLOCK", steps_in_block * entries)
        parts = _gradients(cell, options, reverse)
        assert all(torch.equal(a, b) for a, b in zip(parts, whole, strict=True))
