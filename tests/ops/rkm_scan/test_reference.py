"""The torch backend of rkm_scan: what it keeps for the gradient."""

from __future__ import annotations

import pytest
import torch

from looped import looped
from ops.samples.rkm_scan import CELLS as NAMED
from ops.samples.rkm_scan import tensors
from representer.functional.rkm import Cell
from representer.ops.rkm_scan.reference import ALL, CELLS, NOTHING, Operands

T, B, H = 5, 3, 4
EVERY_CELL = pytest.mark.parametrize("cell", NAMED.values(), ids=NAMED)


def _forward(
    cell: Cell, options: str, *, reverse: bool = False, keep: int = ALL
) -> tuple[torch.Tensor, ...]:
    given = tensors(cell, (T, B, H), options, torch.float64)
    operands = [given.get(name) for name in Operands._fields[:-3]]
    return torch.ops.representer.rkm_scan(*operands, cell.code, reverse, keep, "reference")


@EVERY_CELL
@looped("reverse", [False, True])
@looped("options", ["", "input", "norm hold lengths"])
@looped("keep", [NOTHING, CELLS])
def test_what_is_kept_for_the_gradient_does_not_change_the_results(
    cell: Cell, reverse: bool, options: str, keep: int
):
    every = _forward(cell, options, reverse=reverse)
    fewer = _forward(cell, options, reverse=reverse, keep=keep)
    torch.testing.assert_close(fewer[:3], every[:3])
    assert every[3].shape == (T, B, len(cell.gates), H)
    assert fewer[3].numel() == 0
    assert every[4].shape == (T, B, H)
    for few, all_of in zip(fewer[4:], every[4:], strict=True):
        torch.testing.assert_close(few, all_of if keep == CELLS else few.new_empty(0))


@EVERY_CELL
def test_the_final_state_is_that_of_the_last_true_step(cell: Cell):
    output, h, c, _, cells, _ = _forward(cell, "lengths")
    lengths = tensors(cell, (T, B, H), "lengths", torch.float64)["lengths"]
    for b, length in enumerate(lengths.tolist()):
        assert torch.equal(h[b], output[length - 1, b])
        assert torch.equal(c[b], cells[length - 1, b])
        assert not output[length:, b].any()


def test_cells_before_norm_or_zoneout_are_kept_only_where_they_differ():
    sizes = {
        options: _forward(NAMED["lstm"], options)[5].numel()
        for options in ("", "lengths", "norm", "hold")
    }
    assert sizes == {"": 0, "lengths": 0, "norm": T * B * H, "hold": T * B * H}
