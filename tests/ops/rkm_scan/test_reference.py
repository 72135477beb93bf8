"""The torch backend of rkm_scan: what it saves for the gradient."""

from __future__ import annotations

import pytest
import torch

from representer.functional.cell import Cell
from representer.ops.rkm_scan import reference
from representer.ops.rkm_scan.samples import CELLS, tensors

T, B, H = 5, 3, 4
EVERY_CELL = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)


def _forward(cell: Cell, options: str, *, reverse: bool, save: bool) -> tuple[torch.Tensor, ...]:
    given = tensors(cell, (T, B, H), options, torch.float64)
    names = ("z", "weight", "h0", "c0", "static", "norm", "hold", "lengths")
    operands = [given.get(name) for name in names]
    return reference.forward(*operands, cell.code, reverse, save)


@EVERY_CELL
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("options", ["", "norm hold lengths"])
def test_saving_changes_neither_output_nor_final_state(cell: Cell, reverse: bool, options: str):
    saved = _forward(cell, options, reverse=reverse, save=True)
    bare = _forward(cell, options, reverse=reverse, save=False)
    torch.testing.assert_close(bare[:3], saved[:3])
    assert [tensor.numel() for tensor in bare[3:]] == [0, 0, 0]
    assert saved[3].shape == (T, B, len(cell.gates), H)
    assert saved[4].shape == (T, B, H)


@EVERY_CELL
def test_the_final_state_is_that_of_each_sequences_last_true_step(cell: Cell):
    output, h, c, _, cells, _ = _forward(cell, "lengths", reverse=False, save=True)
    lengths = tensors(cell, (T, B, H), "lengths", torch.float64)["lengths"]
    for b, length in enumerate(lengths.tolist()):
        assert torch.equal(h[b], output[length - 1, b])
        assert torch.equal(c[b], cells[length - 1, b])
        assert not output[length:, b].any()


def test_fresh_cells_are_kept_only_where_norm_or_zoneout_hide_them():
    sizes = {
        options: _forward(CELLS["lstm"], options, reverse=False, save=True)[5].numel()
        for options in ("", "lengths", "norm", "hold")
    }
    assert sizes == {"": 0, "lengths": 0, "norm": T * B * H, "hold": T * B * H}
